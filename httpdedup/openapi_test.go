package httpdedup_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// openAPI is the fragment as JSON.
type openAPI map[string]any

func readOpenAPI(t *testing.T) openAPI {
	t.Helper()
	text, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var doc openAPI
	require.NoError(t, json.Unmarshal(text, &doc))
	return doc
}

// at resolves a reference, such as #/components/schemas/Problem.
func (doc openAPI) at(t *testing.T, ref string) map[string]any {
	t.Helper()
	value := any(map[string]any(doc))
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		object, ok := value.(map[string]any)
		require.Truef(t, ok, "%s leads nowhere", ref)
		value, ok = object[name]
		require.Truef(t, ok, "%s leads nowhere", ref)
	}
	return value.(map[string]any)
}

// Every reference resolves, and every problem is listed in a response with its status.
func TestOpenAPIFragment(t *testing.T) {
	t.Parallel()
	doc := readOpenAPI(t)
	require.Equal(t, "3.1.0", doc["openapi"])
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if ref, ok := value["$ref"].(string); ok {
				require.Len(t, value, 1)
				doc.at(t, ref)
			}
			for _, v := range value {
				walk(v)
			}
		case []any:
			for _, v := range value {
				walk(v)
			}
		}
	}
	walk(map[string]any(doc))

	var named []string
	for name, response := range doc.at(t, "#/components/responses") {
		response := response.(map[string]any)
		require.NotEmpty(t, response["description"], name)
		problems, _ := response["x-problems"].([]any)
		for _, p := range problems {
			named = append(named, p.(string))
		}
	}
	problems, err := os.ReadFile("problems.md")
	require.NoError(t, err)
	table, _, _ := strings.Cut(string(problems), "\n## ")
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(cells[1], "`") {
			require.Contains(t, named, strings.Trim(cells[1], " `"))
		}
	}
	require.Len(t, named, strings.Count(table, "\n| `"))
}

// The middleware's answers fit the fragment: the status, the headers that it names, and every
// member.
func TestAnswersFitTheFragment(t *testing.T) {
	t.Parallel()
	doc := readOpenAPI(t)
	s := open(t, httpdedup.Options{MaxBody: 100, MaxWait: -1})
	entered, leave := make(chan struct{}), make(chan struct{})
	s.handle("POST /orders", "create_order", order)
	s.handle("POST /text", "text", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "text") })
	s.handle("POST /bytes", "bytes", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff}) })
	s.handle("POST /declined", "declined", func(w http.ResponseWriter, r *http.Request) {
		httpdedup.Final(r.Context())
		w.WriteHeader(http.StatusPaymentRequired)
	})
	s.handle("POST /slow", "slow", func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	})
	s.mux.Handle("/operations/{tool}/{key}", s.m.Operations())
	slow := s.request(t, http.MethodPost, "/slow", "k", "")
	done := make(chan error, 1)
	go func() {
		_, err := s.send(slow)
		done <- err
	}()
	wait(t, entered)

	first, again := s.post(t, "k", `{"item":"a"}`), s.post(t, "k", `{"item":"a"}`)
	headers := doc.at(t, "#/components/headers")
	for _, name := range []string{"Idempotency-Replayed", "Dedup-Kept-Until"} {
		require.Contains(t, headers, name)
		require.NotEmpty(t, again.header.Get(name))
	}
	require.NotEmpty(t, first.header.Get("Dedup-Kept-Until"))
	for _, path := range []string{"/text", "/bytes", "/declined"} {
		s.do(t, http.MethodPost, path, "k", "")
	}

	look := func(method, tool string) reply { return s.do(t, method, "/operations/"+tool+"/k", "", "") }
	cases := []struct {
		of       string
		response string
		got      reply
	}{
		{"in-flight", "InFlight", s.do(t, http.MethodPost, "/slow", "k", "")},
		{"missing-key", "InvalidRequest", s.post(t, "", `{}`)},
		{"invalid-key", "InvalidRequest", s.post(t, "null", `{}`)},
		{"invalid-request", "InvalidRequest", s.do(t, http.MethodPost, "/orders?a=1;b=2", "k2", `{}`)},
		{"invalid-body", "InvalidRequest", s.post(t, "k2", `{`)},
		{"body-too-large", "BodyTooLarge", s.post(t, "k2", strings.Repeat("1", 101))},
		{"no-scope", "NoScope", s.post(t, "k2", `{}`, func(r *http.Request) { r.Header.Del("Authorization") })},
		{"key-reused", "KeyReused", s.post(t, "k", `{"item":"b"}`)},
		{"unknown-operation", "UnknownOperation", look(http.MethodGet, "nothing")},
		{"invalid-operation", "InvalidOperation", look(http.MethodGet, "%00")},
		{"method-not-allowed", "MethodNotAllowed", look(http.MethodPost, "text")},
	}
	var operations []reply
	for _, tool := range []string{"slow", "create_order", "text", "bytes", "declined"} {
		operations = append(operations, look(http.MethodGet, tool))
	}
	close(leave)
	require.NoError(t, wait(t, done))
	s.pass(t, "25 hours")
	cases = append(cases, struct {
		of       string
		response string
		got      reply
	}{"expired", "Expired", s.post(t, "k", `{"item":"a"}`)})
	operations = append(operations, look(http.MethodGet, "text"))

	for _, c := range cases {
		response := doc.at(t, "#/components/responses/"+c.response)
		require.Equal(t, c.of, c.got.problem(t).Type)
		require.Contains(t, response["x-problems"], c.of)
		for name := range memberOf(response, "headers") {
			require.NotEmpty(t, c.got.header.Get(name), "%s: %s", c.of, name)
		}
		doc.requireFits(t, doc.at(t, "#/components/schemas/Problem"), decodedBody(t, c.got))
	}
	states := map[string]bool{}
	for _, o := range operations {
		require.Equal(t, http.StatusOK, o.status, o.body)
		body := decodedBody(t, o)
		doc.requireFits(t, doc.at(t, "#/components/schemas/Operation"), body)
		states[body.(map[string]any)["state"].(string)] = true
	}
	require.Equal(t, map[string]bool{"running": true, "done": true, "refused": true, "expired": true}, states)
}

func decodedBody(t *testing.T, r reply) (body any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.body), &body))
	return body
}

func memberOf(object map[string]any, name string) map[string]any {
	member, _ := object[name].(map[string]any)
	return member
}

// requireFits checks a value against a schema, as far as the fragment's schemas go: types, enums,
// and required members without others.
func (doc openAPI) requireFits(t *testing.T, schema map[string]any, value any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = doc.at(t, ref)
	}
	if enum, ok := schema["enum"].([]any); ok {
		require.Contains(t, enum, value)
	}
	kinds := map[string]reflect.Kind{"string": reflect.String, "integer": reflect.Float64, "array": reflect.Slice, "object": reflect.Map}
	if kind, ok := schema["type"].(string); ok {
		require.Equal(t, kinds[kind], reflect.ValueOf(value).Kind(), "%v", value)
	}
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			doc.requireFits(t, memberOf(schema, "items"), v)
		}
	case map[string]any:
		properties := memberOf(schema, "properties")
		required, _ := schema["required"].([]any)
		for _, name := range required {
			require.Contains(t, value, name)
		}
		for name, v := range value {
			inner, known := properties[name].(map[string]any)
			if !known {
				require.False(t, slices.Contains([]any{false}, schema["additionalProperties"]), "%s is not in the schema", name)
				inner = memberOf(schema, "additionalProperties")
			}
			doc.requireFits(t, inner, v)
		}
	}
}
