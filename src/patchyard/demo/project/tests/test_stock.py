import unittest

from inventory.stock import pages, to_order


class Pages(unittest.TestCase):
    def test_splits_evenly(self):
        self.assertEqual(pages([1, 2, 3, 4], 2), [[1, 2], [3, 4]])

    def test_keeps_the_rest(self):
        self.assertEqual(pages([1, 2, 3], 2), [[1, 2], [3]])

    def test_of_nothing_are_none(self):
        self.assertEqual(pages([], 2), [])


class Order(unittest.TestCase):
    def test_names_what_is_short(self):
        self.assertEqual(to_order({"nails": 3, "bolts": 9, "nuts": 1}, 5), ["nails", "nuts"])


if __name__ == "__main__":
    unittest.main()
