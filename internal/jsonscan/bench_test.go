package llmhttp

import (
	"encoding/json"
	"strings"
	"testing"
)

func BenchmarkScanner(b *testing.B) {
	var chat, request strings.Builder
	for i := range 1000 {
		chunk, _ := strings.CutPrefix(chatChunk(i, `,"usage":null`), "data: ")
		chat.WriteString(chunk)
	}
	request.WriteString(`{"model":"gpt-4o","stream":true,"messages":[`)
	for i := range 500 {
		if i > 0 {
			request.WriteString(",")
		}
		content, _ := json.Marshal(strings.Repeat("What is the \"capital\" of France?\n", 10)[:i%300])
		request.WriteString(`{"role":"user","content":` + string(content) + `}`)
	}
	request.WriteString(`]}`)
	for _, tt := range []struct{ name, text string }{
		{"chat chunks", chat.String()},
		{"chat request", request.String()},
		{"long strings", `{"data":"` + strings.Repeat("QUJDREVGR0hJSktM", 1<<16) + `"}`},
		{"escapes", `{"data":"` + strings.Repeat(`\"\u00e9\\`, 1<<16) + `"}`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			text := []byte(tt.text)
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			told := 0
			s := newScanner(func(Value) { told++ })
			for b.Loop() {
				s.reset()
				for p := range slicesOf(text, 32<<10) {
					s.feed(p)
				}
				s.end()
				if s.bad() || s.strings == 0 {
					b.Fatal("no JSON")
				}
			}
		})
	}
}
