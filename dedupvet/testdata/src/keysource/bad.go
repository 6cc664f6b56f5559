package keysource

import (
	cryptorand "crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand"
	randv2 "math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

func literals(id string) []dedup.Call {
	return []dedup.Call{
		{Key: time.Now().String()},                               // want `Call.Key comes from time.Now, which is another value on every try`
		{Key: uuid.NewString()},                                  // want `Call.Key comes from uuid.NewString`
		{Key: uuid.New().String()},                               // want `Call.Key comes from uuid.New`
		{Key: uuid.Must(uuid.NewRandom()).String()},              // want `Call.Key comes from uuid.NewRandom`
		{Key: fmt.Sprintf("%s-%d", id, time.Now().UnixNano())},   // want `Call.Key comes from time.Now`
		{Key: id + "-" + strconv.Itoa(rand.Int())},               // want `Call.Key comes from rand.Int`
		{Key: id + "-" + strconv.Itoa(randv2.IntN(1000))},        // want `Call.Key comes from rand.IntN`
		{Key: strconv.Itoa(rand.New(rand.NewSource(1)).Intn(9))}, // want `Call.Key comes from \*rand.Rand.Intn`
		{Key: cryptorand.Text()},                                 // want `Call.Key comes from rand.Text`
		{Key: string([]byte(uuid.NewString()))},                  // want `Call.Key comes from uuid.NewString`
		{"acme", "open_ticket", uuid.NewString(), nil},           // want `Call.Key comes from uuid.NewString`
	}
}

func ofTruth(start time.Time) dedup.Call {
	return dedup.Call{Key: fmt.Sprint(time.Now().Unix() > start.Unix())} // want `Call.Key comes from time.Now`
}

func throughLocals(call dedup.Call) {
	now := time.Now()
	day := now.Format(time.DateOnly)
	key := "report-" + day
	call.Key = key // want `Call.Key comes from time.Now`
	id, err := uuid.NewRandom()
	if err != nil {
		return
	}
	call.Key = id.String() // want `Call.Key comes from uuid.NewRandom`
	key += "x"
}

func throughBuffers(call *dedup.Call) {
	buf := make([]byte, 16)
	_, _ = cryptorand.Read(buf)
	call.Key = hex.EncodeToString(buf) // want `Call.Key comes from rand.Read`
	var full [16]byte
	_, _ = io.ReadFull(cryptorand.Reader, full[:])
	call.Key = hex.EncodeToString(full[:]) // want `Call.Key comes from rand.Read`
}

func parts(session string) {
	dedup.KeyFromIntent("invoice", time.Now().Format(time.DateOnly)) // want `a part of KeyFromIntent comes from time.Now`
	dedup.KeyFromIntent([]string{"invoice", uuid.NewString()}...)    // want `a part of KeyFromIntent comes from uuid.NewString`
	dedup.KeyFromToolCall(session, 4, uuid.NewString())              // want `a part of KeyFromToolCall comes from uuid.NewString`
	dedup.KeyFromToolCall(session, rand.Intn(10), "call_0")          // want `a part of KeyFromToolCall comes from rand.Intn`
	dedup.KeyFromToolCallArgs(uuid.NewString(), 4, "book", nil, 0)   // want `a part of KeyFromToolCallArgs comes from uuid.NewString`
	dedup.KeyFromArgsMergingRepeats(uuid.NewString(), "printer")     // want `the session of KeyFromArgsMergingRepeats comes from uuid.NewString`
	dedup.TimedKey(time.Now(), "key")                                // want `a part of TimedKey comes from time.Now`
	dedup.TimedKey(time.Now().Truncate(time.Hour), "key")            // want `a part of TimedKey comes from time.Now`
}

func invocations(session string) []tool.Invocation {
	return []tool.Invocation{
		{Scope: "acme", Key: uuid.NewString()},       // want `Invocation.Key comes from uuid.NewString`
		{Session: session, CallID: uuid.NewString()}, // want `Invocation.CallID comes from uuid.NewString`
		{Session: session, Turn: 4, CallID: "call_0"},
	}
}

func newID() string { return uuid.NewString() }

func throughWrapper() dedup.Call {
	return dedup.Call{Key: newID()} // want `Call.Key comes from uuid.NewString`
}

func newPrefixedID() (string, error) {
	id := uuid.NewString()
	return "k-" + id, nil
}

func throughLongerWrapper() (dedup.Call, error) {
	id, err := newPrefixedID()
	return dedup.Call{Key: id}, err // want `Call.Key comes from uuid.NewString`
}

// A key that goes through functions of the package is reported where it is made.
func throughParameters(id string) {
	book(id, uuid.NewString()) // want `Call.Key comes from uuid.NewString`
	rebook(uuid.NewString())   // want `Call.Key comes from uuid.NewString`
	timed(time.Now(), id)      // want `a part of TimedKey comes from time.Now`
}

func rebook(key string) { book("rebooked", key) }

func book(id, key string) dedup.Call { return dedup.Call{Args: id, Key: "book-" + key} }

func timed(at time.Time, id string) { dedup.TimedKey(at, id) }

// Arguments are compared with those of the first try.
type order struct {
	ID string
	At time.Time
}

func arguments(key string) []dedup.Call {
	at := order{ID: "a"}
	at.At = time.Now()
	return []dedup.Call{
		{Key: key, Args: time.Now()},                                  // want `Call.Args hold what comes from time.Now, which is another value on every try, so that a retry is refused with ErrKeyReused`
		{Key: key, Args: map[string]any{"id": key, "at": time.Now()}}, // want `Call.Args hold what comes from time.Now`
		{Key: key, Args: order{ID: uuid.NewString()}},                 // want `Call.Args hold what comes from uuid.NewString`
		{Key: key, Args: &order{At: time.Now()}},                      // want `Call.Args hold what comes from time.Now`
		{Key: key, Args: at},                                          // want `Call.Args hold what comes from time.Now`
	}
}

func merged(session string) {
	dedup.KeyFromArgsMergingRepeats(session, order{At: time.Now()}) // want `the arguments of KeyFromArgsMergingRepeats comes from time.Now`
}

// A time that comes through parameters.
func daily(at time.Time) string { return "report-" + at.Format(time.DateOnly) }

func report(key string) dedup.Call { return dedup.Call{Key: key} }

func timesThroughParameters() {
	_ = dedup.Call{Key: daily(time.Now())} // want `Call.Key comes from time.Now`
	report(daily(time.Now()))              // want `Call.Key comes from time.Now`
	report(time.Now().String())            // want `Call.Key comes from time.Now`
	nested("x", time.Now())                // want `Call.Key comes from time.Now`
}

func nested(name string, at time.Time) dedup.Call {
	if name == "" {
		name = "report"
	}
	return report(name + at.String())
}
