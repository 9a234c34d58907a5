"""Tests that the checker finds planted anomalies under their names, and none in correct histories."""

import random
import unittest

from .checker import FORBIDDEN, Checker
from .history import ABORTED, COMMITTED, Append, ReadList, ReadRegister, Transaction, Write


def transaction(name, *steps, status=COMMITTED):
    return Transaction(name, list(steps), status)


def found(transactions, final=None):
    return dict(Checker(transactions, final or {}).check().counts)


class Planted(unittest.TestCase):
    def test_dirty_write(self):
        one = transaction("one", Append(1, 11), Append(2, 12))
        other = transaction("other", Append(1, 21), Append(2, 22))
        self.assertEqual(found([one, other], {1: (11, 21), 2: (22, 12)}), {"G0": 1})

    def test_dirty_write_of_registers(self):
        one = transaction("one", Write(1, 11), Write(2, 12))
        other = transaction("other", Write(1, 21), Write(2, 22))
        late = transaction("late", ReadRegister(1, 11, 21), ReadRegister(2, 22, 12))
        middle = transaction("middle", ReadRegister(2, 0, 22), ReadRegister(1, 0, 11))
        self.assertIn("G0", found([one, other, late, middle]))

    def test_aborted_read(self):
        one = transaction("one", Append(1, 11), status=ABORTED)
        other = transaction("other", ReadList(1, (11,)))
        self.assertEqual(found([one, other]), {"G1a": 1})

    def test_read_of_what_a_savepoint_undid(self):
        one = transaction("one", Append(1, 11), Append(1, 12, kept=False))
        other = transaction("other", ReadList(1, (11, 12)))
        self.assertEqual(found([one, other], {1: (11,)}), {"G1a": 1})

    def test_undone_elements_that_stay(self):
        self.assertEqual(found([transaction("one", Append(1, 11), status=ABORTED)], {1: (11,)})["G1a"], 1)

    def test_aborted_register_read(self):
        one = transaction("one", Write(1, 11), status=ABORTED)
        self.assertEqual(found([one, transaction("other", ReadRegister(1, 0, 11))]), {"G1a": 1})

    def test_intermediate_read(self):
        one = transaction("one", Append(1, 11), Append(1, 12))
        other = transaction("other", ReadList(1, (11,)))
        counts = found([one, other], {1: (11, 12)})
        self.assertEqual(counts["G1b"], 1)

    def test_intermediate_register_read(self):
        one = transaction("one", Write(1, 11), Write(1, 12))
        self.assertEqual(found([one, transaction("other", ReadRegister(1, 0, 11))])["G1b"], 1)

    def test_circular_information_flow(self):
        one = transaction("one", Append(1, 11), ReadList(2, (21,)))
        other = transaction("other", Append(2, 21), ReadList(1, (11,)))
        self.assertEqual(found([one, other], {1: (11,), 2: (21,)}), {"G1c": 1})

    def test_lost_update(self):
        one = transaction("one", ReadList(1, ()), Append(1, 11))
        other = transaction("other", ReadList(1, ()), Append(1, 21))
        self.assertEqual(found([one, other], {1: (11, 21)}), {"G-single": 1})

    def test_lost_register_update(self):
        one = transaction("one", ReadRegister(1, 0, 0), Write(1, 11), ReadRegister(1, 0, 11))
        other = transaction("other", ReadRegister(1, 0, 0), Write(1, 21), ReadRegister(1, 11, 21))
        self.assertEqual(found([one, other]), {"G-single": 1})

    def test_fractured_read(self):
        one = transaction("one", Append(1, 11), Append(2, 12))
        other = transaction("other", ReadList(1, (11,)), ReadList(2, ()))
        self.assertEqual(found([one, other], {1: (11,), 2: (12,)}), {"G-single": 1})

    def test_read_skew_through_a_third(self):
        one = transaction("one", Append(1, 11))
        two = transaction("two", ReadList(1, (11,)), Append(2, 22))
        other = transaction("other", ReadList(2, (22,)), ReadList(1, ()))
        self.assertEqual(found([one, two, other], {1: (11,), 2: (22,)}), {"G-single": 1})

    def test_write_skew(self):
        one = transaction("one", ReadList(1, ()), Append(2, 12))
        other = transaction("other", ReadList(2, ()), Append(1, 21))
        self.assertEqual(found([one, other], {1: (21,), 2: (12,)}), {"G2": 1})

    def test_internal(self):
        one = transaction("one", Append(1, 11), ReadList(1, ()))
        self.assertIn("internal", found([one], {1: (11,)}))
        two = transaction("two", Write(1, 11), ReadRegister(1, 0, 5))
        self.assertIn("internal", found([two]))

    def test_forked_order(self):
        one, other = transaction("one", Append(1, 11)), transaction("other", Append(1, 21))
        reads = [transaction("a", ReadList(1, (11, 21))), transaction("b", ReadList(1, (21,)))]
        self.assertIn("order", found([one, other, *reads], {1: (11, 21)}))

    def test_forked_register(self):
        writes = [transaction("one", Write(1, 11)), transaction("other", Write(1, 21))]
        reads = [transaction("a", ReadRegister(1, 0, 11)), transaction("b", ReadRegister(1, 0, 21))]
        self.assertIn("order", found(writes + reads))

    def test_lost_append(self):
        self.assertEqual(found([transaction("one", Append(1, 11))], {1: ()}), {"lost": 1})

    def test_a_read_that_misses_an_older_commit(self):
        for write, old, new in ((Append(1, 11), ReadList(1, ()), ReadList(1, (11,))),
                                (Write(1, 11), ReadRegister(1, 0, 0), ReadRegister(1, 0, 11))):
            one = Transaction("one", [write], COMMITTED, began=1.0, ended=2.0)
            late = Transaction("late", [new], COMMITTED, began=5.0, ended=6.0)
            for began, expected in ((3.0, {"stale": 1}), (1.5, {})):
                other = Transaction("other", [old], COMMITTED, began=began, ended=4.0)
                self.assertEqual(found([one, other, late]), expected)

    def test_twice(self):
        self.assertIn("order", found([transaction("one", Append(1, 11))], {1: (11, 11)}))


class Serial(unittest.TestCase):
    """Serial transactions have no anomaly. If one of their reads is replaced by a stale one, the checker finds it."""

    def serial(self, seed, damage=None):
        draw, lists, registers, transactions, element = random.Random(seed), {}, {}, [], 0
        for number in range(300):
            steps, undone = [], draw.random() < 0.1
            before = dict(lists), dict(registers)
            for _ in range(draw.randint(1, 5)):
                key, element = draw.randrange(6), element + 1
                choice = draw.randrange(4)
                if choice == 0:
                    steps.append(ReadList(key, lists.get(key, ())))
                elif choice == 1:
                    lists[key] = (*lists.get(key, ()), element)
                    steps.append(Append(key, element))
                elif choice == 2:
                    steps.append(ReadRegister(key, *registers.get(key, (0, 0))))
                else:
                    registers[key] = (registers.get(key, (0, 0))[1], element)
                    steps.append(Write(key, element))
            if undone:
                lists, registers = before
            transactions.append(transaction(str(number), *steps, status=ABORTED if undone else COMMITTED))
        return transactions, lists

    def test_clean(self):
        for seed in range(20):
            transactions, final = self.serial(seed)
            self.assertEqual(found(transactions, final), {})
            draw = random.Random(seed)
            draw.shuffle(transactions)
            self.assertEqual(found(transactions, final), {}, "order of the record does not matter")

    def test_any_read_that_is_not_repeated_is_found(self):
        for seed in range(40):
            transactions, final = self.serial(seed)
            draw = random.Random(seed)
            stale = [(one, step) for one in transactions[150:] if one.status == COMMITTED
                     for step in one.steps if isinstance(step, ReadList) and len(step.elements) > 10]
            one, step = draw.choice(stale)
            one.steps.append(ReadList(step.key, final[step.key]))
            step.elements = step.elements[:-9]
            self.assertTrue(set(found(transactions, final)) & {"G-single", "G2", "internal", "G1b"}, one)

    def test_levels_forbid_more_and_more(self):
        levels = list(FORBIDDEN.values())
        for weaker, stronger in zip(levels, levels[1:]):
            self.assertLessEqual(weaker, stronger)


if __name__ == "__main__":
    unittest.main()
