"""python3 -m unittest"""

import unittest

import merge


class Merge(unittest.TestCase):
    def test_objects_are_merged_and_null_removes(self):
        current = {"debug": True, "runtimes": {"runc": {}}, "old": 1}
        patch = {"old": None, "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
        wanted = {"debug": True, "runtimes": {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}}}
        self.assertEqual(merge.merge(current, patch), wanted)

    def test_merging_twice_changes_nothing(self):
        patch = {"a": {"b": [1, None], "c": None}, "d": "e"}
        once = merge.merge({"a": 1}, patch)
        self.assertEqual(merge.merge(once, patch), once)

    def test_the_order_of_names_does_not_matter(self):
        self.assertEqual(merge.text({"b": 1, "a": 2}), merge.text({"a": 2, "b": 1}))

    def test_a_difference_names_the_file_and_both_sides(self):
        shown = merge.difference("etc/daemon.json", "{}\n", merge.text({"debug": True}))
        self.assertTrue(all(part in shown for part in ["--- etc/daemon.json", "-{}", '+  "debug": true']), shown)


if __name__ == "__main__":
    unittest.main()
