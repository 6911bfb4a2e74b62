package llmhttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
	"dappco.re/go/core/go-ratelimit/internal/test/piecetest"
)

// chatChunk returns event i of a stream of chat completions. usage is empty, or the field that
// include_usage adds.
func chatChunk(i int, usage string) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{"content":" word%d"},"finish_reason":null}]%s}`, i%1000, usage) + "\n\n"
}

func anthropicEvent(i int) string {
	return fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" word%d and some more\"}}\n\n", i%1000)
}

func ollamaLine(i int) string {
	return fmt.Sprintf(`{"model":"llama3.2","created_at":"2026-10-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":" word%d"},"done":false}`, i%1000) + "\n"
}

// bodyOf returns a body of about a megabyte and the number of its events.
func bodyOf(event func(i int) string) (body []byte, events int) {
	for len(body) < 1<<20 {
		body = append(body, event(events)...)
		events++
	}
	return body, events
}

func BenchmarkStream(b *testing.B) {
	for _, tt := range []struct {
		name  string
		event func(i int) string
	}{
		{"chat", func(i int) string { return chatChunk(i, "") }},
		{"chat usage null", func(i int) string { return chatChunk(i, `,"usage":null`) }},
		{"anthropic", anthropicEvent},
		{"ndjson", ollamaLine},
	} {
		body, events := bodyOf(tt.event)
		for _, size := range []int{4096, 32 << 10} {
			b.Run(fmt.Sprintf("%s/%d", tt.name, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				values := 0
				emit := func(jsonscan.Value) { values++ }
				for b.Loop() {
					s := newStream([]string{`"usage"`}, emit)
					for p := range piecetest.Cut(body, size) {
						s.feed(p)
					}
					s.end()
					if s.textBytes() == 0 {
						b.Fatal("no text was seen")
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
			})
		}
	}
}

// BenchmarkStreamLoopback reads a megabyte of chat chunks from a server that flushes after each
// chunk or after several, and measures the part of the time that the stream takes.
func BenchmarkStreamLoopback(b *testing.B) {
	body, events := bodyOf(func(i int) string { return chatChunk(i, "") })
	chunks := bytes.SplitAfter(body, []byte("\n\n"))
	for _, every := range []int{1, 16} {
		b.Run(fmt.Sprintf("flush every %d", every), func(b *testing.B) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for i, chunk := range chunks {
					_, _ = w.Write(chunk)
					if i%every == every-1 {
						_ = http.NewResponseController(w).Flush()
					}
				}
			}))
			defer server.Close()
			buf := make([]byte, 32<<10)
			var watching time.Duration
			reads := 0
			for b.Loop() {
				resp, err := server.Client().Get(server.URL)
				if err != nil {
					b.Fatal(err)
				}
				s := newStream([]string{`"usage"`}, func(jsonscan.Value) {})
				for {
					n, err := resp.Body.Read(buf)
					reads++
					start := time.Now()
					s.feed(buf[:n])
					watching += time.Since(start)
					if err == io.EOF {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				s.end()
				_ = resp.Body.Close()
			}
			b.ReportMetric(100*float64(watching)/float64(b.Elapsed()-watching), "%overhead")
			b.ReportMetric(float64(watching.Nanoseconds())/float64(b.N)/float64(events), "ns/event")
			b.ReportMetric(float64(reads)/float64(b.N), "reads/op")
		})
	}
}
