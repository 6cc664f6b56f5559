package tool

import (
	"errors"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// Reply returns what a model is told of a call: its result, or an answer that no retry changes, in the
// words of package mcpdedup. isError reports that the call has no result.
//
// Any other error is returned: a lost answer to COMMIT, a twin in flight, an outage, and a tool's own error
// that is not [dedup.Final]. It is not the model's to act on. Told of it, a model plans again with a new
// id, and the first call may take effect after all, at the latest when the run is resumed. So end the run,
// and resume it: the same call is made again. Misuse by the program is returned as well.
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
		if door.OfDatabase(f.Refusal.Message) {
			return door.HiddenRefusal, true, nil
		}
		return f.Refusal.Message, true, nil
	case door.ArgumentsInvalid, door.KeyReused, door.Expired, door.Blocked, door.Parked:
		return words.Text(f), true, nil
	}
	var invalid *dedup.InvalidError
	if errors.As(err, &invalid) && invalid.What == "call" && invalid.Field == "Tool" {
		return "There is no tool of this name. Nothing was done.", true, nil
	}
	return "", false, err
}
