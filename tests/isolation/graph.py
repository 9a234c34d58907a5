"""Directed graphs with labelled edges, strong components, paths."""

from collections import defaultdict, deque


class Graph:
    def __init__(self):
        self.edges = defaultdict(dict)  # from -> to -> {(kind, key)}

    def add(self, one, other, kind, key):
        if one is not None and other is not None and one != other:
            self.edges[one].setdefault(other, set()).add((kind, key))

    def kinds(self, one, other):
        return self.edges.get(one, {}).get(other, set())

    def neighbours(self, members, kinds):
        """The neighbours of each node over edges of these kinds, within `members` (None: all nodes)."""
        found = {}
        for one in self.edges if members is None else members:
            if one in self.edges:
                found[one] = [other for other, labels in self.edges[one].items()
                              if (members is None or other in members) and any(kind in kinds for kind, _ in labels)]
        return found

    def edges_within(self, members, kind):
        for one in members:
            for other, labels in self.edges.get(one, {}).items():
                if other in members and any(label == kind for label, _ in labels):
                    yield one, other


def components(neighbours):
    """The strong components of more than one node (Tarjan's algorithm, without recursion)."""
    index, low, on_stack, stack = {}, {}, set(), []
    for root in neighbours:
        if root in index:
            continue
        work = [(root, iter(neighbours.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(neighbours.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    if len(component) > 1:
                        yield component


def reaches(neighbours, start, goal):
    """The nodes of a shortest path from start to goal, or None."""
    came_from = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            path = []
            while node is not None:
                path.append(node)
                node = came_from[node]
            return path[::-1]
        for other in neighbours.get(node, ()):
            if other not in came_from:
                came_from[other] = node
                queue.append(other)
    return None
