package dedup

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
)

// TestRecordError: the answer of a record. Misuse comes before age, and a broken call before all.
func TestRecordError(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &call{}
	c.Identity = table.Identity{Scope: "acme", Tool: "book", Key: "k"}
	recordError := func(c *call, r table.Record) error {
		c.rec = &r
		return c.recordError()
	}
	sound := table.Record{Outcome: table.Done, CreatedAt: at, ExpiresAt: at.Add(time.Hour), ForgetAt: at.Add(2 * time.Hour), SeenAt: at}
	with := func(change func(*table.Record)) table.Record {
		r := sound
		change(&r)
		return r
	}
	other := func(r *table.Record) { r.Fingerprint[0] = 1 }
	old := func(r *table.Record) { r.SeenAt = r.ExpiresAt }

	require.NoError(t, recordError(c, sound))
	last := with(func(r *table.Record) { r.SeenAt = r.ExpiresAt.Add(-1) })
	require.NoError(t, recordError(c, last), "to the last moment")

	for name, tc := range map[string]struct {
		r    table.Record
		want error
	}{
		"Broken":         {with(func(r *table.Record) { r.Outcome = table.Broken; other(r); old(r) }), ErrBroken},
		"ClaimCommitted": {with(func(r *table.Record) { r.Outcome = "claimed" }), ErrBroken},
		"OtherArgs":      {with(other), ErrKeyReused},
		"OtherArgsOld":   {with(func(r *table.Record) { other(r); old(r) }), ErrKeyReused},
		"Old":            {with(old), ErrExpired},
		"Tombstone":      {with(func(r *table.Record) { r.Tombstone = true }), ErrExpired},
		"Refused":        {with(func(r *table.Record) { r.Outcome, r.Result = table.Refused, `{"message":"no"}` }), ErrRefused},
		"RefusedOld":     {with(func(r *table.Record) { r.Outcome = table.Refused; old(r) }), ErrExpired},
	} {
		require.ErrorIs(t, recordError(c, tc.r), tc.want, name)
	}

	reused := with(func(r *table.Record) {
		r.Fingerprint, r.ArgDigests = Fingerprint{7}, argDigestsOf(t, map[string]int{"seat": 1})
	})
	changed := &call{}
	changed.Entry = table.Entry{Identity: c.Identity, Fingerprint: Fingerprint{8}, ArgDigests: argDigestsOf(t, map[string]int{"seat": 2})}
	require.Equal(t, &Error{
		Kind: ErrKeyReused, Scope: "acme", Tool: "book", KeyHash: KeyHash("k"),
		CreatedAt: at, Changed: []string{"seat"}, Complete: true,
	}, recordError(changed, reused))
	expired := with(old)
	require.Equal(t, &Error{
		Kind:  ErrExpired,
		Scope: "acme", Tool: "book", KeyHash: KeyHash("k"), CreatedAt: at, ExpiredAt: sound.ExpiresAt, ForgetAt: sound.ForgetAt,
	}, recordError(c, expired))
	refused := with(func(r *table.Record) { r.Outcome = table.Refused; old(r) })
	var answer *Error
	require.ErrorAs(t, recordError(c, refused), &answer)
	require.True(t, answer.Refused)
}

func argDigestsOf(t *testing.T, args any) []byte {
	t.Helper()
	_, digests, err := canon.Digest("acme", "book", "k", args)
	require.NoError(t, err)
	return digests
}

func requireInvalid(t *testing.T, err error, field, reason string) {
	t.Helper()
	var invalid *InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field)
	require.Contains(t, invalid.Reason, reason)
	require.True(t, strings.HasPrefix(err.Error(), "dedup: invalid call: "+field+" "), err)
}

func TestValidateName(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct{ key, reason string }{
		"OneByte":         {key: "k"},
		"Limit":           {key: strings.Repeat("k", 255)},
		"LimitInRunes":    {key: strings.Repeat("é", 127) + "k"},
		"Spaces":          {key: " a b "},
		"NFC":             {key: "\u00e9"},
		"NFD":             {key: "e\u0301"},
		"RightToLeft":     {key: "\u202eabc"},
		"Replacement":     {key: "\ufffd"},
		"LastCodePoint":   {key: "\U0010ffff"},
		"Empty":           {key: "", reason: "is empty; "},
		"OneTooMany":      {key: strings.Repeat("k", 256), reason: "is 256 bytes long, and 255 is the most"},
		"TooManyInBytes":  {key: strings.Repeat("é", 128), reason: "is 256 bytes long"},
		"NUL":             {key: "ab\x00", reason: "control character at byte 2"},
		"Newline":         {key: "\nab", reason: "control character at byte 0"},
		"Delete":          {key: "a\x7f", reason: "control character at byte 1"},
		"C1":              {key: "é\u0085", reason: "control character at byte 2"},
		"BadByte":         {key: "a\xff", reason: "not valid UTF-8 at byte 1"},
		"Cut":             {key: "é\xc3", reason: "not valid UTF-8 at byte 2"},
		"Overlong":        {key: "\xc0\xaf", reason: "not valid UTF-8 at byte 0"},
		"SurrogateInUTF8": {key: "\xed\xa0\x80", reason: "not valid UTF-8 at byte 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := validateName("Key", tc.key)
			if tc.reason == "" {
				require.NoError(t, err)
				return
			}
			requireInvalid(t, err, "Key", tc.reason)
		})
	}
}

//nolint:paralleltest // AllocsPerRun counts the whole process
func TestValidateNameAllocatesNothing(t *testing.T) {
	key := strings.Repeat("é", 100) + "018f3c2e-7b1a-7c00-8000-000000000000"
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if validateName("Key", key) != nil {
			panic("refused")
		}
	}))
}

func FuzzKey(f *testing.F) {
	for _, key := range []string{"", "k", "\x00", "é", "e\u0301", "\xff", "\u0085", "\u2028", strings.Repeat("k", 255), strings.Repeat("k", 256)} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		good := key != "" && len(key) <= 255 && utf8.ValidString(key) && strings.IndexFunc(key, unicode.IsControl) < 0
		err := validateName("Key", key)
		require.Equal(t, good, err == nil, "%q: %v", key, err)
		if err != nil && len(key) > 24 {
			require.NotContains(t, err.Error(), key)
		}
		require.Len(t, KeyHash(key), 16)
	})
}

func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	want := Options{
		Schema:         "public",
		Isolation:      pgx.ReadCommitted,
		Retention:      Retention{Result: 24 * time.Hour, Tombstone: 30 * 24 * time.Hour},
		Retry:          RetryPolicy{MaxAttempts: 12, BaseDelay: 10 * time.Millisecond, MaxDelay: time.Second},
		MaxResultBytes: 1 << 20,
		CommitTimeout:  10 * time.Second,
		IdleTimeout:    time.Minute,
	}

	t.Run("Nil", func(t *testing.T) {
		t.Parallel()
		var none *Options
		got, err := none.resolve()
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	t.Run("Zero", func(t *testing.T) {
		t.Parallel()
		given := &Options{}
		got, err := given.resolve()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, Options{}, *given, "the caller's options are copied")
	})
	t.Run("ResolvedAgain", func(t *testing.T) {
		t.Parallel()
		got, err := want.resolve()
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	t.Run("Given", func(t *testing.T) {
		t.Parallel()
		given := Options{
			Schema: "Über \"x\"", Isolation: pgx.Serializable, Retention: Retention{Result: time.Second, Tombstone: -1},
			MaxWait: -1, Retry: RetryPolicy{MaxAttempts: 1, BaseDelay: 1, MaxDelay: 1}, MaxResultBytes: minMaxResultBytes,
			CommitTimeout: time.Millisecond, IdleTimeout: time.Millisecond,
		}
		got, err := given.resolve()
		require.NoError(t, err)
		require.Equal(t, given, got)
	})
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		opts   Options
		option string
	}{
		"SchemaTooLong":         {Options{Schema: strings.Repeat("x", 64)}, "Schema"},
		"SchemaTooLongInBytes":  {Options{Schema: strings.Repeat("é", 32)}, "Schema"},
		"SchemaNUL":             {Options{Schema: "a\x00b"}, "Schema"},
		"SchemaInvalidUTF8":     {Options{Schema: "\xff"}, "Schema"},
		"IsolationUncommitted":  {Options{Isolation: pgx.ReadUncommitted}, "Isolation"},
		"IsolationInjected":     {Options{Isolation: "read committed; drop table x"}, "Isolation"},
		"IsolationCase":         {Options{Isolation: "SERIALIZABLE"}, "Isolation"},
		"NothingRemembered":     {Options{Retention: Retention{Result: -1, Tombstone: -1}}, "Retention"},
		"TombstoneShort":        {Options{Retention: Retention{Result: -1, Tombstone: time.Millisecond - 1}}, "Retention"},
		"RetentionShort":        {Options{Retention: Retention{Result: time.Millisecond - 1}}, "Retention"},
		"RetentionEndless":      {Options{Retention: Retention{Result: maxRetention + 1}}, "Retention"},
		"TombstoneEndless":      {Options{Retention: Retention{Tombstone: maxRetention + 1}}, "Retention"},
		"AttemptsNegative":      {Options{Retry: RetryPolicy{MaxAttempts: -1}}, "Retry.MaxAttempts"},
		"BaseDelayNegative":     {Options{Retry: RetryPolicy{BaseDelay: -1}}, "Retry.MaxDelay"},
		"MaxDelayNegative":      {Options{Retry: RetryPolicy{MaxDelay: -1}}, "Retry.MaxDelay"},
		"BaseDelayAboveMax":     {Options{Retry: RetryPolicy{BaseDelay: 2 * time.Second}}, "Retry.MaxDelay"},
		"MaxDelayBelowBase":     {Options{Retry: RetryPolicy{MaxDelay: time.Millisecond}}, "Retry.MaxDelay"},
		"ResultsTooSmall":       {Options{MaxResultBytes: minMaxResultBytes - 1}, "MaxResultBytes"},
		"ResultsNegative":       {Options{MaxResultBytes: -1}, "MaxResultBytes"},
		"ResultsTooLarge":       {Options{MaxResultBytes: maxMaxResultBytes + 1}, "MaxResultBytes"},
		"CommitTimeoutNegative": {Options{CommitTimeout: -1}, "CommitTimeout"},
		"CommitTimeoutShort":    {Options{CommitTimeout: time.Millisecond - 1}, "CommitTimeout"},
		"IdleTimeoutShort":      {Options{IdleTimeout: time.Microsecond}, "IdleTimeout"},
		"IdleTimeoutNegative":   {Options{IdleTimeout: -1}, "IdleTimeout"},
		"IdleTimeoutLong":       {Options{IdleTimeout: maxIdleTimeout + 1}, "IdleTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := row.opts.resolve()
			require.Equal(t, Options{}, got)
			var bad *InvalidError
			require.ErrorAs(t, err, &bad)
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, row.option, bad.Field)
			require.Contains(t, err.Error(), row.option)
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	_, err := New(nil, nil)
	var bad *InvalidError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "pool", bad.Field)

	for _, d := range []*Deduper{nil, {}} {
		_, err := NewSweeper(d, nil)
		require.ErrorIs(t, err, ErrInvalid)
	}
}

func TestSweepOptions(t *testing.T) {
	t.Parallel()
	for option, opts := range map[string]*SweepOptions{
		"BatchSize": {BatchSize: -1}, "BatchSize of more": {BatchSize: maxSweepBatch + 1}, "MaxBatches": {MaxBatches: -1},
		"Rest": {Rest: 100.5}, "Rest of no number": {Rest: math.NaN()},
	} {
		_, err := opts.resolve()
		var bad *InvalidError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, strings.Fields(option)[0], bad.Field)

		_, err = NewSweeper(&Deduper{pool: new(pgxpool.Pool)}, &SweeperOptions{Sweep: *opts})
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "Sweep."+strings.Fields(option)[0], bad.Field)
		require.Contains(t, err.Error(), "dedup: invalid option: Sweep.")
	}
	var none *SweepOptions
	got, err := none.resolve()
	require.NoError(t, err)
	require.Equal(t, defaultSweepBatch, got.BatchSize)
}

type stringPointer *string

func TestKeptArgs(t *testing.T) {
	t.Parallel()
	text, number, at := "a", 1, time.Unix(1, 0)
	bytes, raw, list, nested := []byte("a"), json.RawMessage("1"), []int{1}, [][]byte{[]byte("a")}
	var noBytes []byte
	var noText *string
	args := []any{nil, "a", 1, &text, &number, &at, &bytes, stringPointer(&text), bytes, raw, list, nested, noBytes, noText}
	want := []any{nil, "a", 1, new("a"), new(1), new(time.Unix(1, 0)), new([]byte("a")), stringPointer(new("a")), []byte("a"), json.RawMessage("1"), []int{1}, [][]byte{[]byte("a")}, noBytes, noText}

	kept := keptArgs(args)
	require.Equal(t, want, kept)
	text, number, at, bytes[0], raw[0], list[0], nested[0][0] = "b", 2, time.Unix(2, 0), 'b', '2', 2, 'b'
	clear(args)
	require.Equal(t, want, kept)

	type shared struct{ n int }
	pointer, m := &shared{1}, map[string]int{"a": 1}
	kept = keptArgs([]any{pointer, m})
	pointer.n, m["a"] = 2, 2
	require.Equal(t, []any{&shared{2}, map[string]int{"a": 2}}, kept)
}
