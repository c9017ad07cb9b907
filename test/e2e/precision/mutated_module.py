"""Edits the text of a module after the Precision stage.

A mutation changes one thing and keeps the module valid: types follow, and casts
join what has different types. Decision records are read and edited by `Record`
alone, so a change of their format concerns only that class.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import re

# An op on one line: results, name, operands, attributes, the value of a
# constant, types and location.
OP = re.compile(
    r"^(?P<indent>\s+)(?:(?P<results>%[^=]*?) = )?(?P<name>[a-z]+\.[a-z_]+|return)"
    r"(?P<operands>[^{:]*?)(?: ?\{(?P<attributes>.*)\})?(?P<value> dense.*?)?"
    r" : (?P<types>.*?)(?P<location> loc\(.*\))?$"
)
VALUE = re.compile(r"%[\w#]+")
ELEMENT = re.compile(r"(bf16|f16|f32|f64|i64|i1)>$")


def split(text):
    """Splits `text` at the commas that no bracket or quote encloses."""
    parts, depth, quoted, start = [], 0, False, 0
    for index, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and text[index - 1] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def with_element(tensor, element):
    """Returns the tensor type `tensor` with another element type."""
    return ELEMENT.sub(f"{element}>", tensor)


class Record:
    """The fields of a decision record, as text."""

    def __init__(self, text="#amp.decision<>"):
        body = text[len("#amp.decision<") : -1]
        self.fields = dict(part.split(" = ", 1) for part in split(body))

    def __str__(self):
        fields = ", ".join(f"{key} = {value}" for key, value in self.fields.items())
        return f"#amp.decision<{fields}>"

    def __getitem__(self, key):
        return self.fields.get(key)

    def __setitem__(self, key, value):
        assert key in self.fields, f"a record has no field {key}"
        self.fields[key] = value

    def get_types(self):
        """Lists the types in which the op computes and stores."""
        return [self["compute"], *split((self["results"] or "[]")[1:-1])]

    def is_low(self, low):
        return low in self.get_types()

    def store(self, element):
        """Records the first float result in type `element`."""
        results = split(self["results"][1:-1])
        self["results"] = "[" + ", ".join([element, *results[1:]]) + "]"

    def multiply(self, element):
        """Records contracted operands of type `element`."""
        self["compute"] = element

    def claim_model(self, element):
        """Claims that the values of the op have type `element` in the model."""
        fields = list(self.fields.items())
        names = list(self.fields)
        fields.insert(names.index("class"), ("model", f"[{element}]"))
        self.fields = dict(fields)


class Op:
    """An op that the text spells on one line. `body` numbers the loop body that
    holds the op; 0 for none."""

    def __init__(self, line, function, body):
        match = OP.match(line)
        self.function, self.body = function, body
        self.indent, self.name = match["indent"], match["name"]
        self.results = split(match["results"] or "")
        self.spelt = match["operands"].strip()
        self.attributes = {}
        for part in split(match["attributes"] or ""):
            key, _, value = part.partition(" = ")
            self.attributes[key] = value
        self.value = match["value"] or ""
        self.location = match["location"] or ""
        inputs, arrow, outputs = match["types"].partition(" -> ")
        self.types = split(inputs.removeprefix("(").removesuffix(")"))
        outputs = split(outputs.removeprefix("(").removesuffix(")"))
        self.result_types = outputs if arrow else list(self.types)
        self.has_arrow = bool(arrow)

    @property
    def operands(self):
        return VALUE.findall(self.spelt)

    @property
    def result(self):
        """The name of the first result."""
        return self.results[0].split(":")[0]

    @property
    def phase(self):
        return self.attributes.get("mpc.phase", "")

    def replace_operand(self, old, new):
        self.spelt = VALUE.sub(lambda m: new if m[0] == old else m[0], self.spelt)

    def set_operand(self, index, new):
        start, end = list(VALUE.finditer(self.spelt))[index].span()
        self.spelt = self.spelt[:start] + new + self.spelt[end:]

    def swap_operands(self, a, b):
        first, second = self.operands[a], self.operands[b]
        self.set_operand(a, second)
        self.set_operand(b, first)

    def __str__(self):
        text = self.indent
        text += ", ".join(self.results) + " = " if self.results else ""
        text += f"{self.name} {self.spelt}".rstrip()
        if self.attributes:
            pairs = [f"{k} = {v}" if v else k for k, v in self.attributes.items()]
            text += " {" + ", ".join(pairs) + "}"
        text += self.value + " : "
        if not self.has_arrow:
            return text + ", ".join(self.types) + self.location
        outputs = ", ".join(self.result_types)
        outputs = outputs if len(self.result_types) == 1 else f"({outputs})"
        return text + f"({', '.join(self.types)}) -> {outputs}{self.location}"


class Module:
    """A module whose low type is `low`. `lines` holds an Op for each line that
    spells one, and text for all others."""

    def __init__(self, text, low):
        self.low, self.counter = low, 0
        self.lines, self.records, self.locations = [], {}, {}
        function, body, bodies = None, 0, 0
        for line in text.splitlines():
            if match := re.match(r"(#\S+) = (#amp\.decision<.*>)$", line):
                self.records[match[1]] = Record(match[2])
                continue
            if match := re.match(r'(#\S+) = loc\("(.*)"', line):
                self.locations[match[1]] = match[2]
            if match := re.match(r"  func\.func (?:\w+ )?@([\w.]+)", line):
                function = match[1]
            elif line.startswith("  }"):
                function = None
            elif line.lstrip().startswith("^bb0("):
                body = bodies = bodies + 1
            elif line.startswith("    }"):
                body = 0
            elif function and not re.search(r"mpc\.(scan|if) ", line):
                line = Op(line, function, body) if OP.match(line) else line
            self.lines.append(line)

    def __str__(self):
        records = [f"{alias} = {record}" for alias, record in self.records.items()]
        return "\n".join([*records, *map(str, self.lines)]) + "\n"

    def clone(self):
        return copy.deepcopy(self)

    # Lines that spell no op: variables, heads of functions, loops.

    def find_line(self, pattern):
        """Returns the index of the first line of text that has `pattern`."""
        for index, line in enumerate(self.lines):
            if isinstance(line, str) and re.search(pattern, line):
                return index
        raise AssertionError(f"found no line with {pattern}")

    def sub(self, pattern, replacement):
        """Replaces `pattern` once, in the first line of text that has it."""
        index = self.find_line(pattern)
        self.lines[index] = re.sub(pattern, replacement, self.lines[index], count=1)

    def get_head(self, function):
        return self.lines[self.find_line(rf"func\.func (?:\w+ )?@{function}\(")]

    def set_result_type(self, function, index, tensor):
        """Changes the type of a result in the head of the function."""
        place = self.find_line(rf"func\.func (?:\w+ )?@{function}\(")
        head, arrow, tail = self.lines[place].rpartition(") -> (")
        parts = split(tail.rpartition(") {")[0])
        parts[index] = re.sub(r"^tensor<.*?>", tensor, parts[index])
        self.lines[place] = f"{head}{arrow}{', '.join(parts)}) {{"

    def get_state(self, function, argument):
        """Returns the name of the variable that the argument holds."""
        pattern = re.escape(argument) + r": \S+ \{mpc.state = @([\w.]+)\}"
        return re.search(pattern, self.get_head(function))[1]

    def find_argument(self, function, state):
        """Returns the argument that holds `state`, and its type; None if none
        does."""
        pattern = r"(%arg\d+): (\S+) \{mpc.state = @" + re.escape(state) + r"\}"
        match = re.search(pattern, self.get_head(function))
        return match and match.groups()

    # Ops

    def get_node(self, op):
        alias = re.match(r" loc\((.*)\)", op.location)
        return self.locations.get(alias[1], "") if alias else ""

    def ops(self, name=None, function=None, node=None, where=lambda op: True):
        """Lists ops by name, function and node; `where` may refuse some."""
        return [
            op
            for op in self.lines
            if isinstance(op, Op)
            and (name is None or op.name in name.split())
            and (function is None or op.function == function)
            and (node is None or node == self.get_node(op))
            and where(op)
        ]

    def op(self, *arguments, **options):
        found = self.ops(*arguments, **options)
        assert found, f"found no op: {arguments} {options}"
        return found[0]

    def peek(self, op):
        """Returns the op's record to read; a record without fields if the op has
        none."""
        return self.records.get(op.attributes.get("amp.decision"), Record())

    def recorded(self, function=None, **fields):
        """Lists the ops whose records have these fields."""

        def matches(op):
            record = self.peek(op)
            names = {"kind": "class"}
            return all(record[names.get(k, k)] == v for k, v in fields.items())

        return self.ops(function=function, where=matches)

    def record(self, op):
        """Gives the op a record of its own, and returns the record to edit."""
        self.counter += 1
        alias = f"#decision_own{self.counter}"
        self.records[alias] = copy.deepcopy(self.peek(op))
        op.attributes["amp.decision"] = alias
        return self.records[alias]

    def namesakes(self, op):
        """Lists the op and the ops of the same node in other functions."""
        identity = (self.get_node(op), op.attributes.get("amp.id"))
        return self.ops(
            op.name,
            where=lambda other: identity
            == (self.get_node(other), other.attributes.get("amp.id")),
        )

    def define(self, value, function):
        """Returns the op outside of loops that defines `value`."""
        for op in self.ops(function=function, where=lambda op: op.body == 0):
            if value.split("#")[0] in [result.split(":")[0] for result in op.results]:
                return op
        return None

    def users(self, value, after):
        """Lists the ops that read `value` behind the op `after`."""
        found = []
        for line in self.lines[self.lines.index(after) + 1 :]:
            if isinstance(line, str) and line.startswith("  }"):
                break
            if (
                isinstance(line, Op)
                and (line.function, line.body) == (after.function, after.body)
                and value in line.operands
            ):
                found.append(line)
        return found

    def insert(self, text, before=None, after=None):
        """Inserts the op spelt by `text`, and returns the name of the result."""
        anchor = before or after
        self.counter += 1
        name = f"%mutant{self.counter}"
        spelt = f"{anchor.indent}{name} = {text}{anchor.location or ' loc(unknown)'}"
        index = self.lines.index(anchor) + (after is not None)
        self.lines.insert(index, Op(spelt, anchor.function, anchor.body))
        return name

    def insert_behind(self, op, text, number=0):
        """Inserts an op that reads result `number` of `op`, spelt {0} in `text`.
        All users of the result then read the new op."""
        value = op.results[number].split(":")[0]
        users = self.users(value, op)
        name = self.insert(text.format(value), after=op)
        for user in users:
            user.replace_operand(value, name)
        return name

    def remove(self, op, number):
        """Removes the op. Users of the result read operand `number`."""
        for user in self.users(op.result, op):
            user.replace_operand(op.result, op.operands[number])
        self.lines.remove(op)

    # Casts

    def cast(self, value, tensor, element, before=None, after=None):
        """Inserts a cast of `value`, and returns the name of the result."""
        text = f"amp.cast {value} : ({tensor}) -> {with_element(tensor, element)}"
        return self.insert(text, before, after)

    def round_operand(self, op, index):
        """Lets the op read an operand through a cast down and a cast up."""
        value, tensor = op.operands[index], op.types[index]
        low = self.cast(value, tensor, self.low, before=op)
        lowered = with_element(tensor, self.low)
        op.set_operand(index, self.cast(low, lowered, "f32", before=op))

    def widen_operand(self, op, index):
        """Lets the op read a low operand through a cast up and a cast down."""
        value, tensor = op.operands[index], op.types[index]
        wide = self.cast(value, tensor, "f32", before=op)
        widened = with_element(tensor, "f32")
        op.set_operand(index, self.cast(wide, widened, self.low, before=op))

    def read(self, op, index, element):
        """Lets the op read an operand as `element`, through a cast."""
        value, tensor = op.operands[index], op.types[index]
        op.set_operand(index, self.cast(value, tensor, element, before=op))
        op.types[index] = with_element(tensor, element)

    def read_low(self, op, index):
        self.read(op, index, self.low)

    def store(self, op, element, number=0):
        """Stores a result in another type. Users read it through a cast."""
        old = op.result_types[number]
        op.result_types[number] = with_element(old, element)
        types = f"({op.result_types[number]}) -> {old}"
        self.insert_behind(op, f"amp.cast {{0}} : {types}", number)

    def lower(self, op, **fields):
        """Stores the op's results in the low type in all functions, as if this
        were decided. `fields` are further changes of the records."""
        names = {"kind": "class"}
        for each in self.namesakes(op):
            self.store(each, self.low)
            record = self.record(each)
            record.store(self.low)
            for key, value in fields.items():
                record[names.get(key, key)] = value
