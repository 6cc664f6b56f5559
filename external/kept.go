package external

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/wire"
)

// kept is a refusal that could not be recorded yet. The row keeps it as JSON, so that all of it is
// recorded later.
type kept struct {
	Message    string          `json:"message"`
	Code       string          `json:"code,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"`
	OfDatabase bool            `json:"of_database,omitempty"`
}

// encodeKept returns the JSON of a refusal. Details that cannot be encoded are left out.
func (x *Tools) encodeKept(why error) string {
	k := kept{Message: note(why), OfDatabase: wire.IsOfDatabase(why)}
	if refused, ok := errors.AsType[*dedup.RefusedError](x.d.Refusal(why)); ok {
		k = kept{refused.Message, refused.Code, refused.Details, refused.OfDatabase}
	}
	text, err := json.Marshal(k)
	if err != nil {
		return k.Message
	}
	return string(text)
}

// refusalOf returns the refusal of a row's verdict. An operator's is only text.
func refusalOf(r *row) error {
	text := value(r.verdictValue)
	var k kept
	if !strings.HasPrefix(value(r.note), unrecorded) || json.Unmarshal([]byte(text), &k) != nil {
		return errors.New(text)
	}
	return keptError{&dedup.RefusedError{Message: k.Message, Code: k.Code, Details: k.Details, OfDatabase: k.OfDatabase}}
}

// keptError is recorded as the refusal that was kept.
type keptError struct{ refused *dedup.RefusedError }

func (e keptError) Error() string { return e.refused.Message }
func (e keptError) Code() string  { return e.refused.Code }
func (e keptError) Unwrap() error { return e.refused }

// MarshalJSON returns the details, nil if there are none.
func (e keptError) MarshalJSON() ([]byte, error) { return e.refused.Details, nil }
