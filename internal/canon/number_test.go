package canon

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCanonicalRefusesNumbers(t *testing.T) {
	t.Parallel()

	for text, reason := range map[string]string{
		`01`:                           "a number with a leading zero, at byte 0",
		`[-00]`:                        "a number with a leading zero, at byte 1",
		`+1`:                           "no JSON value begins like this",
		`.5`:                           "no JSON value begins like this",
		`-`:                            "a number without digits, at byte 1",
		`-a`:                           "a number without digits",
		`1.`:                           "a number without digits after its point, at byte 2",
		`1.e5`:                         "a number without digits after its point",
		`1e`:                           "a number without digits in its exponent, at byte 2",
		`1e+`:                          "a number without digits in its exponent",
		`1e-+1`:                        "a number without digits in its exponent",
		`0x10`:                         "more text after the JSON value",
		`1_000`:                        "more text after the JSON value",
		`1e1000000001`:                 "a number with an exponent beyond ±1000000000",
		`10e1000000000`:                "a number with an exponent beyond ±1000000000",
		`[0.1e-1000000000]`:            "a number with an exponent beyond ±1000000000, at byte 1",
		`1e9223372036854775808`:        "a number with an exponent beyond ±1000000000",
		`1e-99999999999999999999999`:   "a number with an exponent beyond ±1000000000",
		`1e` + strings.Repeat("9", 99): "a number with an exponent beyond ±1000000000",
	} {
		_, err := canonicalOf(text)
		require.Error(t, err, text)
		requireInvalid(t, err, reason)
	}
}

func FuzzNumber(f *testing.F) {
	for _, pair := range [][2]string{
		{"1", "1.0"}, {"100", "1e2"}, {"-0", "0e5"}, {"9007199254740993", "9007199254740992"}, {"0.1", "1e-1"}, {"10e-1", "0.01e2"},
		{"1e999", "1e1000"}, {"-1", "1"}, {"1e1000000000", "10e999999999"}, {"0.00", "00"}, {"1e", "1."},
		{"1." + strings.Repeat("0", 196) + "1", "0"}, {strings.Repeat("1", 190) + "e5000", "0"}, // their canonical forms are longer
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, xOK := rational(a)
		y, yOK := rational(b)
		if !xOK || !yOK {
			return
		}
		ca, cb := requireCanonical(t, a), requireCanonical(t, b)
		require.Equal(t, x.Cmp(y) == 0, ca == cb, "%s (%s) and %s (%s)", a, ca, b, cb)
		z, ok := new(big.Rat).SetString(ca) // which may be longer than what rational takes
		require.True(t, ok)
		require.Zero(t, x.Cmp(z), "%s became %s", a, ca)
	})
}

// rational is the value of a JSON number that math/big can hold in reasonable time.
func rational(text string) (*big.Rat, bool) {
	if text == "" || text[0] != '-' && text[0]-'0' > 9 || len(text) > 200 || !json.Valid([]byte(text)) {
		return nil, false
	}
	text = strings.TrimRight(text, " \t\r\n")
	if _, exp, ok := strings.Cut(strings.ToLower(text), "e"); ok {
		if n, err := strconv.Atoi(exp); err != nil || n > 5000 || n < -5000 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// respell moves the point of a decimal number and adds zeros; the value stays.
func respell(r *rand.Rand, number string) string {
	sign := ""
	if number[0] == '-' {
		sign, number = "-", number[1:]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	shift := 0
	switch n := r.IntN(4); r.IntN(3) {
	case 0: // to the right
		fraction += strings.Repeat("0", n)
		whole, fraction = whole+fraction[:n], fraction[n:]
		shift = -n
	case 1: // to the left
		whole = strings.Repeat("0", n) + whole
		whole, fraction = whole[:len(whole)-n], whole[len(whole)-n:]+fraction
		shift = n
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	fraction += strings.Repeat("0", r.IntN(3))
	if fraction != "" {
		whole += "." + fraction
	}
	if shift != 0 || r.IntN(2) == 0 {
		whole += []string{"e", "E"}[r.IntN(2)] + fmt.Sprintf([]string{"%d", "%+d", "%03d"}[r.IntN(3)], shift)
	}
	return sign + whole
}

func referenceNumber(text string) string {
	mantissa, exp, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		panic("no number: " + text)
	}
	exponent, ten := new(big.Int), big.NewInt(10)
	if exp != "" {
		exponent.SetString(strings.TrimPrefix(exp, "+"), 10)
	}
	exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	if digits.Sign() == 0 {
		return "0"
	}
	for {
		quotient, rest := new(big.Int).QuoRem(digits, ten, new(big.Int))
		if rest.Sign() != 0 {
			break
		}
		digits = quotient
		exponent.Add(exponent, big.NewInt(1))
	}
	if exponent.Sign() == 0 {
		return digits.String()
	}
	return digits.String() + "e" + exponent.String()
}
