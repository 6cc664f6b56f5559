package desk

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// maxDepth bounds nested brackets and signs, which a recursive reader pays for
// with stack.
const maxDepth = 200

// CalculateIn are the arguments of calculate.
type CalculateIn struct {
	Expression string `json:"expression"`
}

// Calculate evaluates + - * / and brackets in float64 and answers with the
// value rounded to two decimals.
func Calculate(_ context.Context, _ pgx.Tx, in CalculateIn) (*string, error) {
	value, err := evaluate(in.Expression)
	if err != nil {
		return nil, kit.Refuse("%v", err)
	}
	return new(kit.Number{Value: kit.Round2(value), Fraction: true}.String()), nil
}

var (
	errExpression = errors.New("invalid expression")
	errZero       = errors.New("division by zero")
)

// expression is what is left to read; runs of blanks are one blank.
type expression struct {
	rest  string
	depth int
}

func evaluate(text string) (float64, error) {
	e := &expression{rest: strings.Join(strings.Fields(text), " ")}
	value, err := e.sum()
	if err != nil {
		return 0, err
	}
	if e.next(); e.rest != "" {
		return 0, errExpression
	}
	return value, nil
}

func (e *expression) sum() (float64, error) {
	value, err := e.product()
	for err == nil {
		var right float64
		switch e.next() {
		case '+':
			right, err = e.take((*expression).product)
			value += right
		case '-':
			right, err = e.take((*expression).product)
			value -= right
		default:
			return value, nil
		}
	}
	return 0, err
}

func (e *expression) product() (float64, error) {
	value, err := e.factor()
	for err == nil {
		var right float64
		switch e.next() {
		case '*':
			right, err = e.take((*expression).factor)
			value *= right
		case '/':
			right, err = e.take((*expression).factor)
			if err == nil && right == 0 {
				return 0, errZero
			}
			value /= right
		default:
			return value, nil
		}
	}
	return 0, err
}

// factor reads a number, a sign and a factor, or a sum in brackets.
func (e *expression) factor() (float64, error) {
	if e.depth++; e.depth > maxDepth {
		return 0, errExpression
	}
	defer func() { e.depth-- }()
	switch e.next() {
	case '-':
		value, err := e.take((*expression).factor)
		return -value, err
	case '+':
		return e.take((*expression).factor)
	case '(':
		value, err := e.take((*expression).sum)
		if err == nil && e.next() != ')' {
			err = errExpression
		}
		e.rest = strings.TrimPrefix(e.rest, ")")
		return value, err
	}
	return e.number()
}

func (e *expression) number() (float64, error) {
	end := strings.IndexFunc(e.rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(e.rest)
	}
	value, err := strconv.ParseFloat(e.rest[:end], 64)
	if err != nil {
		return 0, errExpression
	}
	e.rest = e.rest[end:]
	return value, nil
}

// next is the byte that follows, 0 at the end.
func (e *expression) next() byte {
	e.rest = strings.TrimPrefix(e.rest, " ")
	if e.rest == "" {
		return 0
	}
	return e.rest[0]
}

// take drops the byte that follows and reads on with part.
func (e *expression) take(part func(*expression) (float64, error)) (float64, error) {
	e.rest = e.rest[1:]
	return part(e)
}
