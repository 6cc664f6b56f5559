package tool

import (
	"errors"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// Reply returns the text for the model that made a call: its result, or an error that no retry
// changes, in the words of package mcpdedup. isError is true for a call without a result.
//
// Any other error is returned: a lost reply to COMMIT, a twin in flight, an outage, a tool's own
// error that is not [dedup.Final], and misuse by the program. Do not show it to the model: a model
// that sees it plans again with a new id, and the first call may take effect later. End the run
// instead and resume it, which makes the same call again. So a tool whose refusal the model should
// see returns [dedup.Final], or an [ArgumentError] if the refusal is not to be kept. If session,
// turn and call id make the key, use [dedup.Final]: a resumed run then gets the same refusal.
func Reply(a Answer, err error) (text string, isError bool, _ error) {
	if err == nil {
		return string(a.JSON), false, nil
	}
	if !dedup.IsAnswer(err) {
		return "", false, err
	}
	var record *dedup.Error
	name := ""
	if errors.As(err, &record) {
		name = record.Tool
	}
	words := door.Words{Arguments: "arguments", Same: "with the same arguments", New: "make a new call"}
	switch f := door.FailureOf(name, err); f.Code {
	case door.Refused:
		shown, _ := door.Disclose(f.Refusal)
		return shown.Message, true, nil
	case door.ArgumentsInvalid, door.KeyReused, door.Expired, door.Blocked, door.Parked:
		return words.Text(f), true, nil
	}
	var invalid *dedup.InvalidError
	if errors.As(err, &invalid) && invalid.What == "call" && invalid.Field == "Tool" {
		return "There is no tool of this name. Nothing was done.", true, nil
	}
	return "", false, err
}
