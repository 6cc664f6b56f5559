package tool

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type benchIn struct {
	Order string         `json:"order"`
	Lines []benchLine    `json:"lines,omitempty"`
	By    map[string]int `json:"by,omitempty"`
	When  time.Time      `json:"when,omitzero"`
	Any   any            `json:"any,omitempty"`
	Note  string         `json:"note,omitempty" dedup:"ignore"`
}

type benchLine struct {
	SKU   string  `json:"sku"`
	Count int     `json:"count"`
	Price float64 `json:"price"`
	Gift  bool    `json:"gift,omitempty"`
}

// BenchmarkDecode shows what reading a call's arguments costs.
func BenchmarkDecode(b *testing.B) {
	in := reflect.TypeFor[benchIn]()
	plan, problems := planOf("t", Write, in, reflect.TypeFor[string]())
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	lines := func(n int) string {
		return `"lines":[` + strings.TrimSuffix(strings.Repeat(`{"sku":"A-17","count":2,"price":9.5,"gift":true},`, n), ",") + "]"
	}
	for _, of := range []struct{ name, args string }{
		{"small", `{"order":"o-1"}`},
		{"note", `{"order":"o-1","note":"as the guest said"}`},
		{"order", `{"order":"o-1","when":"2024-02-29T12:00:00Z","by":{"a":1,"b":2},` + lines(3) + `,"note":"as the guest said"}`},
		{"any", `{"order":"o-1","any":{` + lines(100) + `}}`},
		{"lines", `{"order":"o-1",` + lines(1000) + `}`},
	} {
		b.Run(of.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := plan.decode("t", json.RawMessage(of.args), reflect.New(in).Interface()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
