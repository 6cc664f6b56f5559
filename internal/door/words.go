package door

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
)

// Words are a door's names for things in texts for clients. Each text states the event, then
// whether anything was done, then the next step: a model acts on the last.
type Words struct {
	// Arguments names the input of a call: "arguments", or "contents" of a request.
	Arguments string
	// Same describes how to repeat a call, such as "with the same key and the same arguments".
	Same string
	// New describes how to make another call, such as "call again with a new key".
	New string
	// Key are the arguments that form the key, if there are any. Same and New follow from them.
	Key []string
	// Keyless is true if the call has no key, so that a repetition does no harm.
	Keyless bool
	// RetryAfter is the time that clients wait for a running call.
	RetryAfter time.Duration
}

// Text returns the text of a failure for a client. The caller of Text has separate texts for
// Refused, and for KeyRequired and KeyInvalid if no arguments form the key.
func (w Words) Text(f Failure) string {
	if len(w.Key) > 0 {
		w.Same, w.New = "with the same "+w.Arguments, "give it another value for "+strings.Join(w.Key, ", ")
	}
	switch f.Code {
	case ArgumentsInvalid:
		return f.Reason + nothingDone + correct
	case KeyRequired:
		return w.Unkeyed("a value for " + strings.Join(w.Key, ", ") + ", by which the action is known.")
	case KeyInvalid:
		return fmt.Sprintf("What names the action (%s) cannot be its key: it must be 1 to %d bytes of text without control characters.", strings.Join(w.Key, ", "), MaxKey) + nothingDone + correct
	case Parked:
		return "It may have happened. Do not repeat it with a new key. Somebody is looking into it."
	case KeyReused:
		return fmt.Sprintf("The key of this call was used before, at %s, %s. Nothing was done. If this is a retry, send the %s of the first time. If it is a new action, %s.",
			Second(f.Record.CreatedAt), w.changed(f), w.Arguments, w.New)
	case Expired:
		kept := "is no longer kept"
		if f.Record.ExpiredAt.IsZero() {
			kept = "was not kept"
		}
		if f.Record.Refused {
			return fmt.Sprintf("This call was refused at %s, and the answer %s. Nothing was done. If it is a new action, %s.", Second(f.Record.CreatedAt), kept, w.New)
		}
		return fmt.Sprintf("This call was carried out at %s, and its result %s. Nothing was done again. Look up what it did before doing anything else.", Second(f.Record.CreatedAt), kept)
	case Blocked:
		return "This call may have been carried out without a record of its result, and is blocked so that it is not repeated. Do not call again, with this key or another: somebody has to find out what it did."
	case OutcomeUnknown:
		return "It is not known whether this call was carried out. Call again " + w.Same + ": if it was, the answer is its result, and nothing is done twice."
	case InFlight:
		return "The same call is still running. " + w.Wait() + ", then call again " + w.Same + ": the answer is its result."
	case Unavailable:
		return "The database is busy or cannot be reached. " + w.Again()
	case Timeout:
		return "The call ended before there was an answer. " + w.Again()
	default:
		return "The call failed for a reason on the server's side that clients are not told. Other " + w.Arguments + " may not help. " + w.Again()
	}
}

const (
	nothingDone = " Nothing was done. "
	correct     = "Correct the arguments and call again."
)

// Unkeyed asks for a key in the way in which the door takes it.
func (w Words) Unkeyed(with string) string {
	return "This tool changes something, and the call has nothing that tells a retry from a new action." + nothingDone + "Call again with the same " + w.Arguments + " and " + with
}

// Again describes how to try again after a transient failure.
func (w Words) Again() string {
	if w.Keyless {
		return "Calling again does no harm."
	}
	return "If you call again, do so " + w.Same + ": it is carried out no more than once."
}

// Wait describes how long to wait.
func (w Words) Wait() string {
	seconds := Seconds(w.RetryAfter)
	if seconds == 1 {
		return "Wait 1 second"
	}
	return fmt.Sprintf("Wait %d seconds", seconds)
}

// changed describes the differences from the first call with the key.
func (w Words) changed(f Failure) string {
	if len(f.Record.Changed) == 0 {
		return "with other " + w.Arguments
	}
	text := "with other values of " + Names(f.Record.Changed)
	if !f.Record.Complete {
		text += ", and perhaps of more"
	}
	return text
}

// What of a client's own names comes back to it.
const (
	maxName  = 100
	maxNames = 20
)

// Name returns a client's name unchanged if it is plain, else cut and quoted.
func Name(name string) string {
	quoted := strconv.QuoteToASCII(name)
	if len(quoted) > maxName {
		return quoted[:maxName] + `…"`
	}
	if quoted == `"`+name+`"` && name != "" {
		return name
	}
	return quoted
}

// Names lists a client's names.
func Names(all []string) string {
	rest := ""
	if len(all) > maxNames {
		all, rest = all[:maxNames], " and more"
	}
	shown := make([]string, len(all))
	for i, name := range all {
		shown[i] = Name(name)
	}
	return strings.Join(shown, ", ") + rest
}

// Second formats a time for a sentence.
func Second(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Seconds returns d in whole seconds, rounded up.
func Seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// Disclose returns what a client may see of a refusal. A tool that records all errors, or makes such
// an error final, may record the text of the database as the answer. Then HiddenRefusal replaces
// it, and hidden is true.
func Disclose(refused *dedup.RefusedError) (shown dedup.RefusedError, hidden bool) {
	if !refused.OfDatabase {
		return *refused, false
	}
	shown = *refused
	shown.Message, shown.Code, shown.Details = HiddenRefusal, "", nil
	return shown, true
}

// HiddenRefusal replaces the text of a refusal that is OfDatabase.
const HiddenRefusal = "The tool refused this call, and its answer is final."
