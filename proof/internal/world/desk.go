package world

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// The desk's tools are offered by both domains and touch no database: thinking, arithmetic, and handing over to
// a person.

type (
	calculateIn struct {
		Expression string `json:"expression"`
	}
	thinkIn struct {
		Thought string `json:"thought"`
	}
	transferIn struct {
		Summary string `json:"summary"`
	}
)

var deskTools = []kit.Tool{
	kit.Define("calculate", tool.ReadOnly, calculate),
	kit.Define("think", tool.ReadOnly, func(context.Context, pgx.Tx, thinkIn) (*string, error) { return new(""), nil }),
	kit.Define("transfer_to_human_agents", tool.ReadOnly, func(context.Context, pgx.Tx, transferIn) (*string, error) {
		return new("Transfer successful"), nil
	}),
}

// calculate evaluates + - * / and brackets in float64 and answers with the value rounded to two
// decimals.
func calculate(_ context.Context, _ pgx.Tx, in calculateIn) (*string, error) {
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

// evaluate reads the text as an expression of Go, from which it takes away comments, and the
// signs that Go would read as one.
func evaluate(text string) (float64, error) {
	if strings.Trim(text, "0123456789.+-*/() \t\r\n") != "" || strings.Contains(text, "//") || strings.Contains(text, "/*") {
		return 0, errExpression
	}
	text = strings.NewReplacer("+", " + ", "-", " - ", "\n", " ", "\r", " ").Replace(text)
	expression, err := parser.ParseExpr(text)
	if err != nil {
		return 0, errExpression
	}
	return valueOf(expression)
}

func valueOf(expression ast.Expr) (float64, error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return strconv.ParseFloat(e.Value, 64)
	case *ast.ParenExpr:
		return valueOf(e.X)
	case *ast.UnaryExpr:
		value, err := valueOf(e.X)
		if e.Op == token.SUB {
			value = -value
		}
		return value, err
	case *ast.BinaryExpr:
		left, err := valueOf(e.X)
		if err != nil {
			return 0, err
		}
		right, err := valueOf(e.Y)
		if err != nil {
			return 0, err
		}
		switch e.Op {
		case token.ADD:
			return left + right, nil
		case token.SUB:
			return left - right, nil
		case token.MUL:
			return left * right, nil
		case token.QUO:
			if right == 0 {
				return 0, errZero
			}
			return left / right, nil
		}
	}
	return 0, errExpression
}
