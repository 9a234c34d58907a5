-- The other contents of a dump: views, routines, triggers, options of tables.
DELIMITER //
CREATE FUNCTION cents(amount DECIMAL(12,2)) RETURNS BIGINT DETERMINISTIC RETURN amount * 100 //
CREATE PROCEDURE pay(IN who VARCHAR(20), IN what DECIMAL(12,2))
BEGIN
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  UPDATE account SET amount = amount + what WHERE owner = who;
  COMMIT;
END //
CREATE TRIGGER account_audit AFTER UPDATE ON account FOR EACH ROW
BEGIN
  IF NEW.owner = 'cleo' THEN INSERT INTO audit (who, before_it, after_it) VALUES (NEW.owner, OLD.amount, NEW.amount); END IF;
END //
DELIMITER ;
CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20), before_it DECIMAL(12,2), after_it DECIMAL(12,2));
CREATE VIEW rich AS SELECT owner, cents(amount) AS cents FROM account WHERE amount > 500;
CREATE TABLE parted (id INT NOT NULL PRIMARY KEY, v VARCHAR(20)) PARTITION BY RANGE (id) (
  PARTITION low VALUES LESS THAN (100), PARTITION high VALUES LESS THAN MAXVALUE);
INSERT INTO parted VALUES (1, 'low'), (99, 'low'), (100, 'high'), (12345, 'high');
CALL pay('cleo', 1.5);
CALL pay('cleo', -1.5);
