package mcpdedup

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// closing returns the keyword of an object's schema by which arguments may be refused once the
// added one is among them, empty if there is none. At the schema's root the argument is one of its
// properties, which is what additionalProperties and unevaluatedProperties allow.
func closing(root json.RawMessage) string {
	var schema map[string]any
	_ = json.Unmarshal(root, &schema) // it is an object
	c := closed{root: schema}
	for _, open := range [...]string{"additionalProperties", "unevaluatedProperties"} {
		delete(schema, open)
	}
	return c.by(schema)
}

// closed walks the parts of a schema that stand for the arguments themselves.
type closed struct {
	root map[string]any
	// refs are those that led to where the walk is: one that leads to itself adds nothing.
	refs []string
}

func (c *closed) by(schema any) string {
	if schema == false {
		return "false"
	}
	parts, _ := schema.(map[string]any) // true is open, and so is what is no schema
	for _, keyword := range slices.Sorted(maps.Keys(parts)) {
		value, inner := parts[keyword], ""
		switch keyword {
		case "maxProperties", "const", "enum":
			return keyword
		case "additionalProperties", "unevaluatedProperties", "propertyNames":
			if open, _ := value.(map[string]any); value != true && (open == nil || len(open) > 0) {
				return keyword
			}
		case "patternProperties":
			patterns, _ := value.(map[string]any)
			for pattern := range patterns {
				if re, err := regexp.Compile(pattern); err != nil || re.MatchString(KeyArgument) {
					return keyword
				}
			}
		case "$ref", "$dynamicRef":
			inner = c.referred(fmt.Sprint(value))
		case "not", "if", "then", "else":
			inner = c.by(value)
		case "allOf", "anyOf", "oneOf":
			all, _ := value.([]any)
			for _, part := range all {
				inner += c.by(part)
			}
		case "dependentSchemas", "dependencies":
			all, _ := value.(map[string]any)
			for _, part := range all {
				inner += c.by(part)
			}
		}
		if inner != "" {
			return keyword
		}
	}
	return ""
}

// referred is by of the part of the root that a reference names. Any other reference may be to
// anything.
func (c *closed) referred(ref string) string {
	if slices.Contains(c.refs, ref) {
		return ""
	}
	path, local := strings.CutPrefix(ref, "#/")
	var at any = c.root
	for step := range strings.SplitSeq(path, "/") {
		in, _ := at.(map[string]any)
		at = in[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	if !local || at == nil {
		return "$ref"
	}
	c.refs = append(c.refs, ref)
	defer func() { c.refs = c.refs[:len(c.refs)-1] }()
	return c.by(at)
}
