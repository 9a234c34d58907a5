# Executed at each start of the server: the character set that 10.11's runner gives to its database, and 11.8's does not.
SET SESSION sql_log_bin = 0;
ALTER DATABASE test CHARACTER SET latin1 COLLATE latin1_swedish_ci;
