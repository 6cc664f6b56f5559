package keysource

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

type job struct {
	ID, Key   string
	StartedAt time.Time
}

func saved(j job) []dedup.Call {
	sum := sha256.Sum256([]byte(j.ID))
	return []dedup.Call{
		{Key: j.Key},
		{Key: fmt.Sprintf("%s-%d", j.ID, 4)},
		{Key: hex.EncodeToString(sum[:])},
		{Key: uuid.NewSHA1(uuid.UUID{}, []byte(j.ID)).String()},
	}
}

// A key that is minted when the intent is formed.
func minted() dedup.Call {
	key := dedup.NewKey()
	return dedup.Call{Key: key}
}

// Times and random values that are not compared.
func besides(j job) dedup.Call {
	j.StartedAt = time.Now()
	return dedup.Call{Scope: "acme", Key: j.Key, Args: map[string]any{"at": j.StartedAt, "id": j.ID}}
}

func given(j job, in map[string]any) dedup.Call {
	return dedup.Call{Scope: "acme", Key: j.Key, Args: in}
}

func derived(j job) {
	dedup.KeyFromIntent("invoice", j.ID, j.StartedAt.Format(time.DateOnly))
	dedup.KeyFromToolCall(j.ID, 4, "call_0")
	dedup.TimedKey(j.StartedAt, j.Key)
	dedup.KeyFromArgsMergingRepeats(j.ID, map[string]any{"at": j.StartedAt})
}

// A key that a function loads, or makes and saves. Its other arguments do not count.
func loaded() (dedup.Call, error) {
	key, err := loadOrMint(time.Now())
	return dedup.Call{Key: key}, err
}

var table = map[string]string{}

func loadOrMint(now time.Time) (string, error) {
	key, ok := table[now.Weekday().String()]
	if !ok {
		key = uuid.NewString()
		table["x"] = key
	}
	return key, nil
}

// Keys of another kind.
type options struct{ Key string }

func others() options { return options{Key: uuid.NewString()} }

// A time that decides between two keys and is part of neither.
func decided(j job) dedup.Call {
	key := j.Key
	if time.Since(j.StartedAt) > time.Hour {
		key = j.Key + "-late"
	}
	return dedup.Call{Key: key}
}

func invoked(j job) tool.Invocation {
	return tool.Invocation{Session: j.ID, Turn: time.Now().Day(), CallID: "call_0", Args: time.Now()}
}

// Arguments of a function beside the key.
func givenBeside(j job) {
	book(uuid.NewString(), j.Key)
	rebook(dedup.NewKey())
	timed(j.StartedAt, j.ID)
}

// The name of this process, drawn once.
var process = uuid.NewString()

func ofProcess(j job) dedup.Call { return dedup.Call{Key: process + j.ID} }

// A variable that gets a saved time before its use.
func overwritten(saved job) dedup.Call {
	at := time.Now()
	at = saved.StartedAt
	return dedup.Call{Key: at.String()}
}
