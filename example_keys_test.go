package dedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// The key of a model's tool call: session, turn and id together. A re-delivered turn gives the same
// key, the same id in a later turn another.
func ExampleKeyFromToolCall() {
	first, _ := dedup.KeyFromToolCall("conversation 17", 4, "call_0")
	redelivered, _ := dedup.KeyFromToolCall("conversation 17", 4, "call_0")
	later, _ := dedup.KeyFromToolCall("conversation 17", 6, "call_0")
	fmt.Println(first)
	fmt.Println(first == redelivered, first == later)

	// Output:
	// tc1_MRHh1UPeaLMp-6tyG_9vs7ozjpND3IBe_oIuvc_AHlE
	// true false
}

// Some providers leave the id empty, send "null", or the tool's name. The key is made of the
// arguments then, and of how many equal calls came before in the message.
func ExampleKeyFromToolCallArgs() {
	message := []struct{ id, args string }{
		{"null", `{"seat":"1A"}`},
		{"null", `{"seat":"1B"}`},
		{"null", `{"seat":"1A"}`}, // meant twice
	}
	before := map[string]int{}
	for _, call := range message {
		if dedup.UsableToolCallID(call.id, "book_seat") {
			continue // KeyFromToolCall
		}
		key, err := dedup.KeyFromToolCallArgs("conversation 17", 4, "book_seat", json.RawMessage(call.args), before[call.args])
		if err != nil {
			panic(err)
		}
		before[call.args]++
		fmt.Println(key)
	}

	// Output:
	// ta1_k9c5953QmdQnbCbZKlVQCeZIZv0ETH6-5Sy2ovhCmwQ
	// ta1_4m2k72YdR-7KrPxGCHBpqDmG_wGxsEnIx0X3ao6KfTo
	// ta1_jpe1Cgz8vrKoGbv_O0cj6zxQjNqRNoc1RUcMg-qdJPk
}

// The key of an intent with a natural name. No part runs into the next.
func ExampleKeyFromIntent() {
	key, _ := dedup.KeyFromIntent("invoice", "2026-117", "send")
	fmt.Println(key)

	a, _ := dedup.KeyFromIntent("a", "bc")
	b, _ := dedup.KeyFromIntent("ab", "c")
	fmt.Println(a == b)

	// Output:
	// in1_N-VDJNNFMhcZ9YkNfffXjTUsKj52Nz8xuWQpPdcPL5Y
	// false
}

// The last resort: equal arguments are one call, even if a second was meant.
func ExampleKeyFromArgsMergingRepeats() {
	type addBag struct {
		Reservation string `json:"reservation"`
		Bags        int    `json:"bags"`
	}
	first, _ := dedup.KeyFromArgsMergingRepeats("conversation 17", addBag{"R1", 1})
	second, _ := dedup.KeyFromArgsMergingRepeats("conversation 17", addBag{"R1", 1})
	fmt.Println("a second bag is added:", first != second)

	// Output:
	// a second bag is added: false
}

// Call NewKey once, when the intent is formed, and save the key with it.
func ExampleNewKey() {
	plan := struct{ Step, Key string }{Step: "refund order A-117", Key: dedup.NewKey()}
	fmt.Println(regexp.MustCompile(`^ts1_[0-9a-v]{9}_[0-9A-Za-z_-]{22}$`).MatchString(plan.Key))

	// Output:
	// true
}

// A stable time in front of a derived key keeps new records together in the index.
func ExampleTimedKey() {
	session := struct {
		ID        string
		StartedAt time.Time // saved with the session: the same on every try
	}{"conversation 17", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}

	key, _ := dedup.KeyFromToolCall(session.ID, 4, "call_1")
	timed, _ := dedup.TimedKey(session.StartedAt, key)
	fmt.Println(timed)

	// Output:
	// ts1_1jikka2g0_tc1_QyYFNdTV_SeMoEk2nutr3HURenYc45Oyem5sdXr_wfY
}

// Logs show the hash of a key.
func ExampleKeyHash() {
	fmt.Println(dedup.KeyHash("invoice-2026-117"))

	// Output:
	// ccd8dd9c4ad1f3d9
}

// Two texts of one value have one fingerprint; every digit counts.
func ExampleFingerprintOf() {
	of := func(text string) dedup.Fingerprint {
		fp, err := dedup.FingerprintOf(json.RawMessage(text))
		if err != nil {
			panic(err)
		}
		return fp
	}
	fmt.Println(of(`{"a": 1.0, "b": "\u00e9"}`) == of(`{"b":"é","a":1}`))
	fmt.Println(of(`9007199254740993`) == of(`9007199254740992`))

	// Output:
	// true
	// false
}

// The same key with other arguments is neither run nor replayed. The error names the arguments that
// differ, never their values.
func ExampleError() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}

	type refund struct {
		Order string `json:"order"`
		Cents int    `json:"cents"`
		Note  string `json:"note,omitempty"`
	}
	for _, in := range []refund{
		{Order: "A-117", Cents: 500},
		{Order: "A-117", Cents: 700, Note: "sorry"},
	} {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "refund", Key: "k1", Args: in},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "refunded", nil })

		var reused *dedup.Error
		if errors.As(err, &reused) {
			fmt.Println("reused:", reused.Tool, reused.Changed, "complete:", reused.Complete)
		} else {
			fmt.Println("error:", err)
		}
	}

	// Output:
	// error: <nil>
	// reused: refund [cents note] complete: true
}
