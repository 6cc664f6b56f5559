package tool

import (
	"bufio"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/npm"
)

func TestSchemasSayWhatIsReadAndWritten(t *testing.T) {
	t.Parallel()
	testSchemas(t, 200)
}

func TestLongSchemasSayWhatIsReadAndWritten(t *testing.T) {
	t.Parallel()
	testSchemas(t, 2000)
}

// testSchemas compares the plans of a corpus of types with Ajv, a validator of other authors. Ajv
// must accept every schema and every result, zero and extreme ones too. Of arguments, it must
// accept those that decode accepts and refuse those that decode refuses. Accepted arguments must
// read as encoding/json reads them.
func testSchemas(t *testing.T, count int) {
	t.Helper()
	ajv := startAJV(t)
	rng := rand.New(rand.NewPCG(1, 2))
	types := append(nastyTypes(), nastyArguments()...)
	for len(types) < count {
		types = append(types, randomType(rng, 3))
	}
	var taken, refused, more, results int
	for i, typ := range types {
		in := reflect.StructOf([]reflect.StructField{{Name: "V", Type: typ, Tag: `json:"v"`}})
		plan, problems := planOf("t", Write, in, typ)
		info := Info{In: in, Out: typ}
		if i < len(nastyTypes()) {
			in = nil // a type of results only
		} else {
			require.Empty(t, problems, "%s", typ)
		}

		var texts []string
		for range 6 {
			text, err := encode(randomValue(rng, typ, 4).Interface())
			require.NoError(t, err, "%s", typ)
			texts = append(texts, string(text))
		}
		schema, err := info.OutputSchema()
		require.NoError(t, err)
		for j, fits := range ajv.validate(t, typ, schema, texts, true) {
			results++
			require.Truef(t, fits, "%s wrote %s, which does not fit %s", typ, texts[j], schema)
		}
		if in == nil {
			continue
		}

		schema, err = info.InputSchema()
		require.NoError(t, err)
		for j := range texts {
			texts[j] = asJavaScript(t, `{"v":`+texts[j]+`}`)
			for range 6 {
				texts = append(texts, string(mutate(rng, json.RawMessage(texts[j]))))
			}
		}
		for j, fits := range ajv.validate(t, typ, schema, texts, false) {
			read := reflect.New(in)
			all, _, err := plan.decode("t", json.RawMessage(texts[j]), read.Interface())
			if fits && err != nil && refusesMore.MatchString(err.Error()) {
				more++
				continue
			}
			require.Equalf(t, fits, err == nil, "%s is given %s by the schema %s: %v", typ, texts[j], schema, err)
			if err != nil {
				refused++
				continue
			}
			taken++
			again := reflect.New(in)
			require.NoErrorf(t, json.Unmarshal(all, again.Interface()), "%s is given %s", typ, texts[j])
			one, err := encode(again.Elem().Interface())
			require.NoError(t, err)
			other, err := encode(read.Elem().Interface())
			require.NoError(t, err)
			require.Equalf(t, string(one), string(other), "%s is given %s", typ, texts[j])
		}
	}
	t.Logf("%d types: %d results, %d arguments taken, %d refused, %d of them for more than their schema says", len(types), results, taken, refused+more, more)
	require.Greater(t, taken, 10*len(types))
	require.Greater(t, refused, 10*len(types))
}

// refusesMore matches the errors of arguments that fit a schema and are refused: values read from a
// string, and 64-bit integers that are not float64s.
var refusesMore = regexp.MustCompile(`cannot be read as|does not fit u?int(64|ptr)?$`)

// longNumber matches integers that may not be float64s.
var longNumber = regexp.MustCompile(`([:,[]-?)(\d{16,})\b`)

// asJavaScript rewrites integers as JavaScript reads them, as float64s.
func asJavaScript(t *testing.T, text string) string {
	t.Helper()
	text = longNumber.ReplaceAllStringFunc(text, func(number string) string {
		parts := longNumber.FindStringSubmatch(number)
		f, err := strconv.ParseFloat(parts[2], 64)
		require.NoError(t, err)
		return parts[1] + strconv.FormatFloat(f, 'f', 0, 64)
	})
	var tree any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&tree))
	written, err := encode(tree)
	require.NoError(t, err)
	return string(written)
}

// mutate changes one place of a text.
func mutate(rng *rand.Rand, text json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	var elements []json.RawMessage
	deeper := rng.IntN(5) > 0
	switch {
	case deeper && text[0] == '{' && json.Unmarshal(text, &members) == nil && len(members) > 0:
		name := sortedName(rng, members)
		switch rng.IntN(12) {
		case 0:
			delete(members, name)
		case 1:
			members[pick(rng, append(oddTexts, "zzz"))] = members[name]
		default:
			members[name] = mutate(rng, members[name])
		}
		text, _ = json.Marshal(members)
	case deeper && text[0] == '[' && json.Unmarshal(text, &elements) == nil && len(elements) > 0:
		i := rng.IntN(len(elements))
		switch rng.IntN(8) {
		case 0:
			elements = elements[1:]
		case 1:
			elements = append(elements, elements[i])
		default:
			elements[i] = mutate(rng, elements[i])
		}
		text, _ = json.Marshal(elements)
	case text[0] == '"' || rng.IntN(3) == 0:
		text, _ = json.Marshal(pick(rng, oddTexts))
	case text[0] >= '-' && text[0] <= '9' || rng.IntN(3) == 0:
		text = json.RawMessage(pick(rng, oddNumbers))
	default:
		text = json.RawMessage(pick(rng, []string{`null`, `true`, `[]`, `{}`, `[null]`, `{"a":1}`, `0`, `""`}))
	}
	return text
}

// oddNumbers are numbers that JavaScript reads exactly.
var oddNumbers = []string{
	"0", "-0", "1", "-1", "1.0", "1e0", "100e-2", "1.28e2", "0.5", "-0.5", "-0.0", "127", "128", "-128", "-129", "255", "256",
	"32767", "32768", "-32768", "-32769", "65535", "65536", "2147483647", "2147483648", "-2147483649", "4294967295", "4294967296",
	"9007199254740992", "9223372036854774784", "9223372036854775808", "-9223372036854775808", "-9223372036854777856",
	"18446744073709549568", "18446744073709551616", "1e19", "-1e19", "1e39", "-1e39", "3.4028234663852886e38",
	"3.4028235677973366e38", "3.402823567797337e38", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "1e-7",
}

var oddTexts = []string{
	"", "a", "null", "true", "false", "True", "💩", "\x00", "0", "-0", "00", "007", "+1", " 1", "1 ", "1\n", "1.0", "1e2", "-1", "127", "128", "-128", "-129",
	"255", "256", "32767", "32768", "-32768", "-32769", "65535", "65536", "99999", "2147483648", "9223372036854775807", "9223372036854775808",
	"-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1e", "1.", ".5", "0x1p-2", "1_0", "NaN", "Infinity",
	`"`, `""`, `"a"`, `"a\n"`, "\"\n\"", `"\u00e9"`, `"\x"`, `"a"b"`,
	"AQI=", "AQI", "QR==", "A===", "====", "AQ\nI=", "AQ\r\nI=", "AQ I=", "AQI=AQI=", "-_8=",
	"2024-02-29T23:59:59Z", "2023-02-29T00:00:00Z", "2024-01-01t00:00:00z", "2024-01-01T00:00:00z", "2016-12-31T23:59:60Z", "2024-01-01 00:00:00Z",
	"2024-01-01T00:00:00,5Z", "2024-01-01T00:00:00.5Z", "2024-01-01T00:00:00.Z", "2024-01-01T24:00:00Z", "2024-01-01T0:00:00Z", "2024-01-01T00:00:00+23:59",
	"2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00-00:60", "2024-13-01T00:00:00Z", "0000-01-01T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01",
}

// ajv is a process that validates JSON.
type ajv struct {
	in      io.Writer
	answers *bufio.Reader
}

func (a *ajv) validate(t *testing.T, typ reflect.Type, schema json.RawMessage, texts []string, formats bool) []bool {
	t.Helper()
	line, err := json.Marshal(map[string]any{"schema": schema, "texts": texts, "formats": formats})
	require.NoError(t, err)
	_, err = a.in.Write(append(line, '\n'))
	require.NoError(t, err)
	line, err = a.answers.ReadBytes('\n')
	require.NoError(t, err)
	var answer struct {
		Error string
		Fits  []bool
	}
	require.NoError(t, json.Unmarshal(line, &answer))
	require.Emptyf(t, answer.Error, "%s has the schema %s", typ, schema)
	require.Len(t, answer.Fits, len(texts))
	return answer.Fits
}

// startAJV starts the process. It skips the test without node or npm's packages.
func startAJV(t *testing.T) *ajv {
	t.Helper()
	folder := npm.Install(t, "ajv")
	node := exec.CommandContext(t.Context(), "node", filepath.Join(folder, "validate.mjs"))
	node.Stderr = os.Stderr
	in, err := node.StdinPipe()
	require.NoError(t, err)
	out, err := node.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, node.Start())
	t.Cleanup(func() { in.Close(); _ = node.Wait() })
	return &ajv{in: in, answers: bufio.NewReader(out)}
}

func pick[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }
