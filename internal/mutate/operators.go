package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// collector gathers the changes of one file.
type collector struct {
	src   *source
	fn    *ast.FuncDecl
	conds []condition
	found []*mutant
}

// condition is one of a switch without a value. Every test that reaches the
// switch may evaluate it, but coverage knows of those alone for which it holds.
type condition struct {
	from, to, sw token.Pos
}

func (c *collector) add(kind string, from, to token.Pos, insert string) {
	at := from
	for _, cond := range c.conds {
		if cond.from <= from && from < cond.to {
			at = cond.sw
		}
	}
	c.found = append(c.found, &mutant{
		src: c.src, fn: c.fn, kind: kind, line: c.src.line(from), reach: c.src.line(at),
		start: c.src.offset(from), end: c.src.offset(to), insert: insert,
	})
}

// swapped are the operators and what stands in for them.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.SHL: token.SHR, token.SHR: token.SHL, token.AND: token.OR, token.OR: token.AND,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC,
}

// function collects the changes of a function's body; those of a function
// literal in it return that literal's types.
func (c *collector) function(typ *ast.FuncType, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			c.function(n.Type, n.Body)
			return false
		case *ast.IfStmt:
			c.negate(n.Cond) // which is also to swap if and else
			if n.Else == nil {
				c.add("remove if", n.Pos(), n.End(), "")
			}
		case *ast.SwitchStmt:
			c.clauses(n)
		case *ast.BlockStmt:
			c.statements(n.List)
		case *ast.CaseClause:
			c.statements(n.Body)
		case *ast.CommClause:
			c.statements(n.Body)
		case *ast.ReturnStmt:
			c.results(typ, n)
		case *ast.BinaryExpr:
			if to, ok := swapped[n.Op]; ok {
				c.add("operator", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to.String())
			}
		case *ast.BasicLit:
			c.literal(n)
		}
		return true
	})
}

func (c *collector) negate(cond ast.Expr) {
	c.add("negate", cond.Pos(), cond.End(), "!("+c.src.of(cond)+")")
}

// clauses negates the conditions of a switch, removes its cases, and lets
// neighbours change places where their order can matter.
func (c *collector) clauses(n *ast.SwitchStmt) {
	for i, stmt := range n.Body.List {
		clause := stmt.(*ast.CaseClause)
		c.conds = append(c.conds, condition{clause.Pos(), clause.Colon, n.Pos()})
		if clause.List != nil {
			c.add("remove case", clause.Pos(), clause.End(), "")
		}
		if n.Tag != nil {
			continue
		}
		for _, cond := range clause.List {
			c.negate(cond)
		}
		if i == 0 || clause.List == nil {
			continue
		}
		if before := n.Body.List[i-1].(*ast.CaseClause); before.List != nil {
			c.add("swap cases", before.Pos(), clause.End(), c.src.of(clause)+"\n"+c.src.of(before))
		}
	}
}

// statements removes what stands for its effect alone. What declares or returns
// would not compile without it.
func (c *collector) statements(list []ast.Stmt) {
	for _, stmt := range list {
		switch s := stmt.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
			if to, ok := swapped[s.Tok]; ok {
				c.add("operator", s.TokPos, s.TokPos+token.Pos(len(s.Tok.String())), to.String())
			}
		case *ast.IncDecStmt:
			c.add("operator", s.TokPos, s.End(), swapped[s.Tok].String())
		case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
		default:
			continue
		}
		c.add("remove statement", stmt.Pos(), stmt.End(), "")
	}
}

// results makes each result its type's zero value, and a bool its opposite.
func (c *collector) results(typ *ast.FuncType, ret *ast.ReturnStmt) {
	var types []ast.Expr
	if typ.Results != nil {
		for _, field := range typ.Results.List {
			for range max(1, len(field.Names)) {
				types = append(types, field.Type)
			}
		}
	}
	if len(types) != len(ret.Results) {
		return
	}
	for i, result := range ret.Results {
		text, name := c.src.of(result), c.src.of(types[i])
		switch {
		case name == "bool":
			c.add("return opposite", result.Pos(), result.End(), "!("+text+")")
		case text != "nil" && text != `""` && text != name+"{}":
			c.add("return zero", result.Pos(), result.End(), "*new("+name+")")
		}
	}
}

// literal moves a whole number by one either way.
func (c *collector) literal(lit *ast.BasicLit) {
	if lit.Kind != token.INT {
		return
	}
	n, err := strconv.ParseInt(lit.Value, 0, 64)
	if err != nil {
		return
	}
	c.add("constant", lit.Pos(), lit.End(), fmt.Sprint(n+1))
	c.add("constant", lit.Pos(), lit.End(), fmt.Sprint(n-1))
}

// constants changes what is declared outside all functions: numbers by one, and
// texts in their last character.
func (c *collector) constants(decl *ast.GenDecl) {
	c.fn = nil
	ast.Inspect(decl, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok {
			return true
		}
		c.literal(lit)
		if text := strings.TrimSuffix(lit.Value, `"`); lit.Kind == token.STRING && len(text) > 1 && text != lit.Value {
			last := "0"
			if strings.HasSuffix(text, last) {
				last = "1"
			}
			c.add("constant", lit.Pos(), lit.End(), text[:len(text)-1]+last+`"`)
		}
		return true
	})
}
