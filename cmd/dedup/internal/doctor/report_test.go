package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVerdict(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		findings      []Severity
		plain, strict string
	}{
		{nil, "", ""},
		{[]Severity{SeverityOK, SeverityOK}, "", ""},
		{[]Severity{SeverityOK, SeverityUnknown}, "", "doctor: 1 unknown value"},
		{[]Severity{SeverityWarning, SeverityWarning}, "", "doctor: 2 warnings"},
		{[]Severity{SeverityError}, "doctor: 1 error", "doctor: 1 error"},
		{
			[]Severity{SeverityError, SeverityWarning, SeverityUnknown, SeverityUnknown, SeverityOK},
			"doctor: 1 error, 1 warning, 2 unknown values", "doctor: 1 error, 1 warning, 2 unknown values",
		},
	} {
		var findings []Finding
		for _, severity := range tc.findings {
			findings = append(findings, Finding{Severity: severity})
		}
		r := newReport(subject{}, findings)
		for strict, want := range map[bool]string{false: tc.plain, true: tc.strict} {
			err := r.verdict(strict)
			if want == "" {
				require.NoError(t, err)
				continue
			}
			require.EqualError(t, err, want)
		}
	}
}
