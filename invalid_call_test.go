package dedup

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func requireInvalid(t *testing.T, err error, field, reason string) {
	t.Helper()
	var invalid *InvalidCallError
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
			require.NotErrorIs(t, err, ErrKeyRequired)
		})
	}
}

func TestValidateNameEmpty(t *testing.T) {
	t.Parallel()

	for field, sentinel := range map[string]error{
		"Scope": ErrScopeRequired,
		"Tool":  ErrToolRequired,
		"Key":   ErrKeyRequired,
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, validateName(field, "x"))
			err := validateName(field, "")
			require.ErrorIs(t, err, sentinel)
			requireInvalid(t, err, field, "is empty; ")
		})
	}
}

func TestInvalidCallErrorHidesItsCause(t *testing.T) {
	t.Parallel()

	cause := errors.New("cannot encode card 4111")
	err := error(&InvalidCallError{Field: "Args", Reason: "cannot be encoded", Err: cause})
	require.ErrorIs(t, err, cause)
	require.NotContains(t, err.Error(), "4111")
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
