package mcpdedup_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// oddSchemas are schemas that would change in a Go type, and how they are shown. KEY stands for the
// added argument, and NAME for its name.
var oddSchemas = map[string]struct{ schema, shown string }{
	"bare": {`{"type":"object"}`, `{"type":"object","properties":{KEY},"required":[NAME]}`},
	"blank": {
		`{"type":"object","required":[],"properties":{}}`,
		`{"type":"object","required":[NAME],"properties":{KEY}}`,
	},
	"empty": {
		`{"type":"object","properties":{"any":{}},"required":["any"]}`,
		`{"type":"object","properties":{"any":{},KEY},"required":["any",NAME]}`,
	},
	"booleans": {
		`{"additionalProperties":true,"type":"object","properties":{"list":{"items":true,"type":"array"},"deep":{"properties":{"x":true,"y":false,"z":{}}}}}`,
		`{"additionalProperties":true,"type":"object","properties":{"list":{"items":true,"type":"array"},"deep":{"properties":{"x":true,"y":false,"z":{}}},KEY},"required":[NAME]}`,
	},
	"numbers": {
		`{"properties":{"n":{"maximum":9223372036854775807,"minimum":-9007199254740993.10,"multipleOf":1e0},"c":{"const":9007199254740993},"e":{"enum":[9007199254740993,1.10,null,{"b":[]}]}},"type":"object"}`,
		`{"properties":{"n":{"maximum":9223372036854775807,"minimum":-9007199254740993.10,"multipleOf":1e0},"c":{"const":9007199254740993},"e":{"enum":[9007199254740993,1.10,null,{"b":[]}]},KEY},"type":"object","required":[NAME]}`,
	},
	"keywords": {
		`{"$schema":"http://json-schema.org/draft-07/schema#","x-order":["z","a"],"required":["z"],"properties":{"z":{"description":"<&> é ` + "\u2028" + ` \u00e9"},"a":{"x-b":1e2,"properties":{"required":{}}}},"dependencies":{"a":["z"]},"type":"object","title":"properties"}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","x-order":["z","a"],"required":["z",NAME],"properties":{"z":{"description":"<&> é ` + "\u2028" + ` \u00e9"},"a":{"x-b":1e2,"properties":{"required":{}}},KEY},"dependencies":{"a":["z"]},"type":"object","title":"properties"}`,
	},
	"escaped": {
		`{"type":"object","\u0070roperties":{"\u0061":{}},"\u0072equired":["a"]}`,
		`{"type":"object","\u0070roperties":{"\u0061":{},KEY},"\u0072equired":["a",NAME]}`,
	},
}

// oddServer is a server with a tool for each schema. A tool answers with its arguments.
func oddServer(schemas map[string]any) *mcp.Server {
	server := newServer()
	for name, schema := range schemas {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: schema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			tx, _ := mcpdedup.Tx(ctx)
			if err := effect(ctx, tx, req.Params.Name); err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(req.Params.Arguments)}}}, nil
		})
	}
	return server
}

// wrapAll puts a server's tools behind the middleware.
func wrapAll(t *testing.T, d *desk, server *mcp.Server, schemas map[string]any, opts *mcpdedup.Options) {
	t.Helper()
	policies := map[string]mcpdedup.Policy{}
	for name := range schemas {
		policies[name] = mcpdedup.Policy{Class: tool.Write}
	}
	wrap(t, server, d.tools, opts, policies)
}

// shownSchemas returns the exact bytes of the schemas in a server's list.
func shownSchemas(t *testing.T, server *mcp.Server) map[string]string {
	t.Helper()
	_, answer := poster(server)(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema json.RawMessage
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &list), answer)
	schemas := map[string]string{}
	for _, shown := range list.Result.Tools {
		schemas[shown.Name] = string(shown.InputSchema)
	}
	return schemas
}

const shownKey = `"idempotencyKey":{"type":"string","description":"Names this one action, so that it is carried out only once. ` +
	`For a new action make up a new random value, such as a UUID, even if the other arguments equal an earlier call's. ` +
	`For a retry of the same action, after an error, a timeout or a lost answer, send exactly the same value and the same arguments again.",` +
	`"minLength":1,"maxLength":255}`

func withKey(shown string) string {
	return strings.NewReplacer("KEY", shownKey, "NAME", `"idempotencyKey"`).Replace(shown)
}

// TestMiddlewareChangesNothingButTheKey compares the bytes of schemas, for every Go type that a
// server may keep them in.
func TestMiddlewareChangesNothingButTheKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	schemas, want := map[string]any{}, map[string]string{}
	for name, odd := range oddSchemas {
		schemas[name], want[name] = json.RawMessage(odd.schema), withKey(odd.shown)
		schemas[name+"-spaced"] = json.RawMessage(strings.NewReplacer("{", " {\n ", "}", "\t} ").Replace(odd.schema))
	}
	schemas["null"] = json.RawMessage(`{"type":"object","required":null,"properties":null}`)
	want["null"] = withKey(`{"type":"object","required":[NAME],"properties":{KEY}}`)
	schemas["map"] = map[string]any{"type": "object", "properties": map[string]any{"<b>": true, "a": json.Number("1e2")}}
	want["map"] = withKey(`{"properties":{"<b>":true,"a":1e2,KEY},"type":"object","required":[NAME]}`)
	schemas["go"] = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"b": {}, "a": {Type: "null"}}, PropertyOrder: []string{"b", "a"}}
	want["go"] = withKey(`{"type":"object","properties":{"b":true,"a":{"type":"null"},KEY},"required":[NAME]}`)

	server := oddServer(schemas)
	plain := shownSchemas(t, server)
	wrapAll(t, d, server, schemas, oneUser())
	for range 2 {
		wrapped := shownSchemas(t, server)
		require.Len(t, wrapped, len(schemas))
		for name, schema := range want {
			require.Equal(t, escaped(schema), escaped(wrapped[name]), name)
		}
		for name, odd := range oddSchemas {
			require.Equal(t, escaped(odd.schema), escaped(plain[name]), "the SDK changes nothing")
			require.Equal(t, escaped(want[name]), escaped(wrapped[name+"-spaced"]), "the SDK leaves spaces out")
		}
	}
}

// escaped writes one character in one of its two spellings; encoding/json chooses by its release
// and options.
func escaped(text string) string { return strings.ReplaceAll(text, "\u2028", `\u2028`) }

// TestMiddlewareRefusesSchemas has schemas that no argument can be added to.
func TestMiddlewareRefusesSchemas(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	for schema, says := range map[string]string{
		`{"type":"object","properties":[]}`:                                   "properties",
		`{"type":"object","required":true}`:                                   "required",
		`{"type":"object","properties":{"\u0069dempotencyKey":true}}`:         "rename it",
		`{"type":"object","properties":{},"properties":{"idempotencyKey":1}}`: "rename it",
	} {
		schemas := map[string]any{"odd": json.RawMessage(schema)}
		server := oddServer(schemas)
		var told []mcpdedup.Failure
		wrapAll(t, d, server, schemas, collecting(&told, mcpdedup.SingleUser("house")))
		_, err := connect(t, server).ListTools(t.Context(), nil)
		require.ErrorContains(t, err, "cannot be listed", schema)
		require.Len(t, told, 1)
		require.ErrorContains(t, told[0].Err, says, schema)
	}
}

// TestClosedSchemas: a tool whose schema may refuse the added argument is not listed, and the error
// tells what to do. A schema that accepts the argument is listed, and arguments with the key fit
// it.
func TestClosedSchemas(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	const shut = `{"properties":{"a":{}},"additionalProperties":false}`
	for name, c := range map[string]struct{ schema, keyword string }{
		"oneOf":                {`{"type":"object","oneOf":[` + shut + `,{"required":["b"]}]}`, "oneOf"},
		"anyOf":                {`{"type":"object","anyOf":[` + shut + `]}`, "anyOf"},
		"allOf":                {`{"type":"object","allOf":[{"required":["a"]},` + shut + `]}`, "allOf"},
		"ref":                  {`{"type":"object","$ref":"#/$defs/in","$defs":{"in":` + shut + `}}`, "$ref"},
		"refInAllOf":           {`{"type":"object","allOf":[{"$ref":"#/$defs/x~1y"}],"$defs":{"x/y":` + shut + `}}`, "allOf"},
		"then":                 {`{"type":"object","if":{"required":["a"]},"then":` + shut + `}`, "then"},
		"else":                 {`{"type":"object","if":{"required":["b"]},"else":` + shut + `}`, "else"},
		"if":                   {`{"type":"object","if":` + shut + `,"else":{"required":["b"]}}`, "if"},
		"not":                  {`{"type":"object","not":{"maxProperties":3}}`, "not"},
		"dependentSchemas":     {`{"type":"object","dependentSchemas":{"a":` + shut + `}}`, "dependentSchemas"},
		"patternProperties":    {`{"type":"object","patternProperties":{"Key$":{"type":"integer"}}}`, "patternProperties"},
		"propertyNames":        {`{"type":"object","propertyNames":{"pattern":"^[a-z]$"}}`, "propertyNames"},
		"maxProperties":        {`{"type":"object","maxProperties":1}`, "maxProperties"},
		"unevaluated":          {`{"type":"object","allOf":[{"unevaluatedProperties":false}]}`, "allOf"},
		"const":                {`{"type":"object","const":{"a":"x"}}`, "const"},
		"false":                {`{"type":"object","allOf":[false]}`, "allOf"},
		"openAtItsRoot":        {shut[:1] + `"type":"object",` + shut[1:], ""},
		"unevaluatedAtRoot":    {`{"type":"object","properties":{"a":{}},"unevaluatedProperties":false}`, ""},
		"openAnyOf":            {`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`, ""},
		"openRef":              {`{"type":"object","$ref":"#/$defs/in","$defs":{"in":{"properties":{"a":{"type":"string"}},"required":["a"]}}}`, ""},
		"refToItself":          {`{"type":"object","allOf":[{"$ref":"#/$defs/in"}],"$defs":{"in":{"dependentSchemas":{"z":{"$ref":"#/$defs/in"}}}}}`, ""},
		"closedArgument":       {`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},` + shut + `]}}}`, ""},
		"anotherPattern":       {`{"type":"object","patternProperties":{"^x-":{"type":"integer"}}}`, ""},
		"openThen":             {`{"type":"object","if":{"required":["a"]},"then":{"minProperties":1}}`, ""},
		"dependentRequired":    {`{"type":"object","dependentRequired":{"b":["a"]}}`, ""},
		"additionalsOfASort":   {`{"type":"object","additionalProperties":{"type":"string"}}`, ""},
		"additionalsInOneOf":   {`{"type":"object","oneOf":[{"additionalProperties":{"type":"integer"}},{"required":["a"]}]}`, "oneOf"},
		"additionalsOpenThere": {`{"type":"object","oneOf":[{"additionalProperties":{}}]}`, ""},
	} {
		schemas := map[string]any{"odd": json.RawMessage(c.schema)}
		var told []string
		opts := oneUser()
		opts.OnError = func(_ context.Context, f mcpdedup.Failure) { told = append(told, f.Err.Error()) }
		server := oddServer(schemas)
		wrapAll(t, d, server, schemas, opts)
		if c.keyword != "" {
			_, err := connect(t, server).ListTools(t.Context(), nil)
			require.Error(t, err, name)
			require.Len(t, told, 1, name)
			require.Contains(t, told[0], "tool odd may refuse arguments with idempotencyKey among them, by "+c.keyword+";", name)
			require.Contains(t, told[0], "Policy.KeyArgument", name)
			require.Contains(t, told[0], "Options.KeysInMeta", name)
			opts.KeysInMeta = true
			server = oddServer(schemas)
			wrapAll(t, d, server, schemas, opts)
			require.JSONEq(t, c.schema, shownSchemas(t, server)["odd"], name)
			continue
		}
		require.Empty(t, told, name)
		var shown jsonschema.Schema
		require.NoError(t, json.Unmarshal([]byte(shownSchemas(t, server)["odd"]), &shown), name)
		resolved, err := shown.Resolve(nil)
		require.NoError(t, err, name)
		require.NoError(t, resolved.Validate(map[string]any{"a": "x", mcpdedup.KeyArgument: "k"}), name)
	}
}

// TestNoArguments: no arguments, null and an object without members are equal, behind the
// middleware and in a registry.
func TestNoArguments(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	require.NoError(t, d.tools.Add(tool.Tool[struct{}, string]{Name: "ring", Class: tool.Write, Run: func(ctx context.Context, tx pgx.Tx, _ struct{}) (string, error) {
		return "rung", effect(ctx, tx, "ring")
	}}))
	schemas := map[string]any{"odd": json.RawMessage(`{"type":"object"}`)}
	wrapped := oddServer(schemas)
	wrapAll(t, d, wrapped, schemas, oneUser())
	for name, server := range map[string]*mcp.Server{"odd": wrapped, "ring": d.server(t, oneUser())} {
		cs, before := connect(t, server), d.count(t, "effects")
		for _, none := range []any{nil, json.RawMessage("null"), args{}} {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: none, Meta: mcp.Meta{mcpdedup.MetaKey: "k"}})
			require.NoError(t, err, name)
			require.False(t, res.IsError, "%s: %v", name, res.Content)
		}
		require.Equal(t, before+1, d.count(t, "effects"), name)
	}
}
