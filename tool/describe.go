package tool

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Catalogue describes a registry's tools, for documentation and for review. It
// encodes to JSON.
type Catalogue struct {
	Tools []Entry `json:"tools"`
}

// Entry describes a tool.
type Entry struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Class       Class    `json:"class"`
	Key         KeyNeed  `json:"key"`
	KeyFields   []string `json:"key_fields,omitempty"`
	// Retry says how a caller that got no answer may call again. An ExternalTool is called again
	// with the same key; of one it says who finds out what became of the call.
	Retry string    `json:"retry"`
	Scope ScopeRule `json:"scope"`
	// ResultFor and RefusedFor are how long an answer is replayed, and how long
	// its key is refused after that, in seconds; zero without a record.
	ResultFor  float64  `json:"result_seconds,omitempty"`
	RefusedFor float64  `json:"tombstone_seconds,omitempty"`
	Ignored    []string `json:"ignored_fields,omitempty"`
	Redacted   []string `json:"redacted_fields,omitempty"`
}

// KeyNeed says whether a call must have a key.
type KeyNeed string

const (
	KeyNone     KeyNeed = "none"     // a key means nothing
	KeyOptional KeyNeed = "optional" // with one the answer is recorded
	KeyRequired KeyNeed = "required"
)

func keyNeed(c Class) KeyNeed {
	switch {
	case c.NeedsKey():
		return KeyRequired
	case c.Writes():
		return KeyOptional
	default:
		return KeyNone
	}
}

// retries says what a caller may do that got no answer.
func retries(c Class) string {
	switch {
	case c.NeedsKey():
		return "with the same key"
	case c.Writes():
		return "freely, with the same key if it had one"
	default:
		return "freely"
	}
}

// Describe returns the catalogue, sorted by name.
func (r *Registry) Describe() Catalogue {
	c := Catalogue{Tools: []Entry{}}
	for _, info := range r.Tools() {
		e := Entry{
			Name: info.Name, Description: info.Description, Class: info.Class,
			Key: keyNeed(info.Class), KeyFields: info.Key, Retry: info.Retry, Scope: info.Scope,
			Ignored: info.Ignored, Redacted: info.Redacted,
		}
		if info.Class.Writes() {
			kept := info.Retention.Or(r.d.Options().Retention)
			e.ResultFor, e.RefusedFor = kept.Result.Seconds(), max(kept.Tombstone, 0).Seconds()
		}
		c.Tools = append(c.Tools, e)
	}
	return c
}

// WriteMarkdown writes the catalogue as a table.
func (c Catalogue) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| tool | class | key | retry | replayed for | then refused for |\n|---|---|---|---|---|---|\n")
	for _, e := range c.Tools {
		key := string(e.Key)
		if len(e.KeyFields) > 0 {
			key = "in " + strings.Join(e.KeyFields, ", ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n",
			e.Name, e.Class, key, e.Retry, days(e.ResultFor), days(e.RefusedFor))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// days writes whole days and hours as such.
func days(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "-"
	case d%day == 0:
		return fmt.Sprintf("%d d", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	default:
		return d.String()
	}
}
