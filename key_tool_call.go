package dedup

import (
	"strconv"

	"github.com/tooldedup/dedup/internal/canon"
)

// KeyFromToolCall returns the key of one tool call of a model: session is the
// conversation or run, turn counts the model's messages in it from 0 (or from
// 1; the same way each time), toolCallID is the id that the provider gave the
// call. All three are in the saved transcript, so a re-delivered or resumed
// turn gives the same key.
//
// Why the turn? Because (session, toolCallID) alone is wrong. Ids are unique
// within one message of the model and nowhere else: some providers start again
// with every turn. In 200 recorded sessions 1,164 calls carried 134 distinct ids
// and 49 sessions used one twice; keyed by session and id, 5 of 536 recorded
// writes were swallowed, and 4 of them would have succeeded. Session, turn and id
// together were unique on all 2,833 recorded calls and swallowed none. The turn
// counts through the whole session, also after its history was compacted.
//
// What it risks: two calls of one message that carry one id are one call here, and
// the second is refused with [ErrKeyReused]. An id that is the call's position in
// its message names another call once part of the message is numbered anew. A
// model that plans again gives the same intent a new id, which no key can notice; a
// key of your own, made with the plan and saved with it ([NewKey]), always
// wins.
//
// An empty session, a negative turn, and a toolCallID that names no call whatever
// the tool ([UsableToolCallID]) are an *[InvalidError].
func KeyFromToolCall(session string, turn int, toolCallID string) (string, error) {
	if err := validateTurn(session, turn); err != nil {
		return "", err
	}
	if !UsableToolCallID(toolCallID, "") {
		return "", invalid("ToolCallID", "is empty, \"null\" or \"None\", as some providers leave it; make the key of the call's arguments: KeyFromToolCallArgs")
	}
	var room [canon.HashRoom]byte
	b := append(room[:0], toolCallDomain...)
	b = canon.AppendPart(b, session)
	b = canon.AppendPart(b, strconv.Itoa(turn))
	b = canon.AppendPart(b, toolCallID)
	return encodeKey(toolCallPrefix, b), nil
}

// KeyFromToolCallArgs returns the key of a tool call whose id is not usable: it is
// empty or the like ([UsableToolCallID]), or another call of the message carries it
// too. session and turn are those of [KeyFromToolCall]; tool is the tool's name and
// args are the call's arguments, compared as [FingerprintOf] does; repeat counts the
// calls of the same message before this one that have the same tool and arguments and
// go by them too, nearly always 0.
//
// The position of the call in its message does not count, since it changes when a
// part of the message is delivered again, or when calls are delivered as they arrive.
//
// What it risks: arguments that differ between two deliveries of one call, such as a
// time that is put in on the way, make two calls of it, and both run. Of two equal
// calls in one message, the second alone is taken for the first when it is delivered
// again without it.
//
// An empty session or tool, a negative turn or repeat, and arguments without a
// fingerprint are an *[InvalidError].
func KeyFromToolCallArgs(session string, turn int, tool string, args any, repeat int) (string, error) {
	if err := validateTurn(session, turn); err != nil {
		return "", err
	}
	if err := validateName("Tool", tool); err != nil {
		return "", err
	}
	if repeat < 0 {
		return "", invalid("Repeat", "is negative; count the equal calls of the message before this one from 0")
	}
	fp, err := FingerprintOf(args)
	if err != nil {
		return "", err
	}
	var room [canon.HashRoom]byte
	b := append(room[:0], toolCallArgsDomain...)
	b = canon.AppendPart(b, session)
	b = canon.AppendPart(b, strconv.Itoa(turn))
	b = canon.AppendPart(b, tool)
	b = canon.AppendPart(b, fp[:])
	b = canon.AppendPart(b, strconv.Itoa(repeat))
	return encodeKey(toolCallArgsPrefix, b), nil
}

// UsableToolCallID reports whether a tool call's id, as it came from the model's
// provider, can name the call: it is not empty, not "null" or "None", which is what
// becomes of an id that was never there, and not the name of the tool, which every
// call of the tool shares. That no other call of the message carries it is for whoever
// sees the message to check.
func UsableToolCallID(id, tool string) bool {
	return id != "" && id != "null" && id != "None" && id != tool
}

func validateTurn(session string, turn int) error {
	if err := validateSession(session); err != nil {
		return err
	}
	if turn < 0 {
		return invalid("Turn", "is negative; count the model's messages in the session from 0")
	}
	return nil
}
