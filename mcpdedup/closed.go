package mcpdedup

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// closing returns the keyword of a schema by which it may refuse arguments with the added one, or
// "" if there is none. additionalProperties and unevaluatedProperties at the root do not count,
// because the added argument becomes one of the root's properties.
func closing(root json.RawMessage) string {
	var schema map[string]any
	_ = json.Unmarshal(root, &schema) // it is an object
	c := closedSearch{root: schema}
	for _, open := range [...]string{"additionalProperties", "unevaluatedProperties"} {
		delete(schema, open)
	}
	return c.keyword(schema)
}

// closedSearch walks the parts of a schema that apply to the arguments themselves.
type closedSearch struct {
	root map[string]any
	// refs are the references that led to the current part. A reference that leads to itself adds
	// nothing.
	refs []string
}

func (c *closedSearch) keyword(schema any) string {
	if schema == false {
		return "false"
	}
	parts, _ := schema.(map[string]any) // true is open, and so is a value that is not a schema
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
			inner = c.keywordOf(fmt.Sprint(value))
		case "not", "if", "then", "else":
			inner = c.keyword(value)
		case "allOf", "anyOf", "oneOf":
			all, _ := value.([]any)
			for _, part := range all {
				inner += c.keyword(part)
			}
		case "dependentSchemas", "dependencies":
			all, _ := value.(map[string]any)
			for _, part := range all {
				inner += c.keyword(part)
			}
		}
		if inner != "" {
			return keyword
		}
	}
	return ""
}

// keywordOf is keyword for the part of the root that a reference names. Any other reference counts
// as closed, because its target is unknown.
func (c *closedSearch) keywordOf(ref string) string {
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
	return c.keyword(at)
}
