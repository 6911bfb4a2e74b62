package llmhttp_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// zip compresses texts with gzip, each flushed behind the one before.
func zip(t testing.TB, texts ...string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, text := range texts {
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		z.Flush()
	}
	z.Close()
	return b.String()
}

// A compressed answer is counted like the same answer without compression, and passes unchanged,
// however it is cut into pieces.
func TestCompressedAnswers(t *testing.T) {
	const usage = `{"choices":[],"usage":{"prompt_tokens":4000,"completion_tokens":900}}`
	delta := `{"choices":[{"delta":{"content":"` + strings.Repeat("x", 400) + `"}}]}`
	whole := zip(t, sse(delta), sse(usage), sse("[DONE]"))
	for _, test := range []struct {
		name, coding, body string
		in, out            int
		source             llmhttp.Source
	}{
		{"a stream", "gzip", whole, 4000, 900, llmhttp.SourceReported},
		{"JSON", "gzip", zip(t, usage), 4000, 900, llmhttp.SourceReported},
		{"its other name", "X-GZIP", zip(t, usage), 4000, 900, llmhttp.SourceReported},
		{"in two members", "gzip", zip(t, usage[:30]) + zip(t, usage[30:]), 4000, 900, llmhttp.SourceReported},
		{"cut off", "gzip", zip(t, sse(delta), sse(delta))[:30], 0, 494, llmhttp.SourceEstimate},
		{"cut off behind the usage", "gzip", whole[:len(whole)-8], 4000, 900, llmhttp.SourceReported},
		{"empty", "gzip", "", 0, 494, llmhttp.SourceEstimate},
		{"not compressed, as the header says", "gzip", usage, 0, 500, llmhttp.SourceEstimate},
		{"damaged behind the usage", "gzip", whole[:len(whole)-8] + "12345678", 4000, 900, llmhttp.SourceEstimate},
		{"br", "br", whole, 0, 500, llmhttp.SourceEstimate},
		{"twice", "gzip, gzip", zip(t, whole), 0, 500, llmhttp.SourceEstimate},
	} {
		for _, cut := range []struct {
			name   string
			reader func(io.Reader) io.Reader
		}{
			{"whole", func(r io.Reader) io.Reader { return r }},
			{"bytes", iotest.OneByteReader},
			{"with the end", iotest.DataErrReader},
		} {
			t.Run(test.name+", "+cut.name, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
				var settled llmhttp.Event
				tr := &llmhttp.Transport{Limiter: rl, OnEvent: func(e llmhttp.Event) {
					if e.Kind == llmhttp.EventSettled {
						settled = e
					}
				}, Base: base(func(req *http.Request) (*http.Response, error) {
					resp := response(req, 200, "", "Content-Encoding: "+test.coding)
					resp.Body = io.NopCloser(cut.reader(strings.NewReader(test.body)))
					return resp, nil
				})}
				resp, err := post(t, tr, "http://llm.test/v1/chat/completions", `{"model":"m","stream":true,"max_tokens":500}`)
				if err != nil {
					t.Fatal(err)
				}
				if got := readAll(t, resp); got != test.body {
					t.Errorf("%d bytes came of %d, or others", len(got), len(test.body))
				}
				if test.in == 0 {
					test.in = settled.Charged.PromptTokens
				}
				if s := rl.Stats("m"); s.ITPM != test.in || s.OTPM != test.out || settled.Source != test.source {
					t.Errorf("counted %d in, %d out, by %q; want %d, %d, %q", s.ITPM, s.OTPM, settled.Source, test.in, test.out, test.source)
				}
			})
		}
	}
}

// An answer that cannot be read costs all the output that the request allows, where the estimate is
// less.
func TestUnreadableAnswerCostsTheMost(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, "\x01\x02", "Content-Encoding: br")}
	exchange(t, tr, "http://llm.test/v1/messages", `{"model":"m","max_tokens":4096}`)
	if s := rl.Stats("m"); s.OTPM != 4096 {
		t.Errorf("counted %d", s.OTPM)
	}
}

// A compressed stream that is closed early is counted as far as it came.
func TestCompressedStreamClosedEarly(t *testing.T) {
	delta := sse(`{"choices":[{"delta":{"content":"` + strings.Repeat("x", 8000) + `"}}]}`)
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	body := zip(t, delta, delta, delta)
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, body[:len(body)-40], "Content-Encoding: gzip")}
	resp, err := post(t, tr, chatURL, `{"model":"m","stream":true}`)
	if err != nil {
		t.Fatal(err)
	}
	readOnce(t, resp, nil)
	if s := rl.Stats("m"); s.OTPM < 4000 || s.InFlight != 0 {
		t.Errorf("counted %d of the 4,000 or more that came", s.OTPM)
	}
}

// The error of a compressed refusal is read.
func TestCompressedRefusal(t *testing.T) {
	tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{})}
	tr.Base = reply(429, zip(t, `{"error":{"code":"insufficient_quota"}}`), "Content-Encoding: gzip")
	resp, err := post(t, tr, chatURL, `{"model":"m"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if p := llmhttp.Classify(resp); p.Kind != llmhttp.Exhausted {
		t.Errorf("classified as %v", p)
	}
}

// Codings that cannot be read are not asked for, unless the header is signed.
func TestAcceptEncoding(t *testing.T) {
	const aws = "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=accept-encoding;host, Signature=f"
	for _, test := range []struct{ accept, authorization, want string }{
		{"gzip, deflate", "Bearer k", "gzip"},
		{"br, gzip;q=0.8, zstd", "", "gzip;q=0.8"},
		{"gzip;q=0, br", "", "identity"},
		{"gzip;q=0.0, deflate", "", "identity"},
		{"br", "", "identity"},
		{"*", "", "identity"},
		{"identity", "", "identity"},
		{"GZIP", "", "GZIP"},
		{"", "", ""},
		{"gzip, br", aws, "gzip, br"},
		{"gzip, br", strings.Replace(aws, "accept-encoding;", "", 1), "gzip"},
	} {
		t.Run(test.accept, func(t *testing.T) {
			var got string
			tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{}), Base: base(func(req *http.Request) (*http.Response, error) {
				got = req.Header.Get("Accept-Encoding")
				return response(req, 200, someUsage), nil
			})}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", chatURL, strings.NewReader(`{"model":"m"}`))
			if test.accept != "" {
				req.Header.Set("Accept-Encoding", test.accept)
			}
			if test.authorization != "" {
				req.Header.Set("Authorization", test.authorization)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			if got != test.want {
				t.Errorf("sent %q, want %q", got, test.want)
			}
			if req.Header.Get("Accept-Encoding") != test.accept {
				t.Error("the caller's request was changed")
			}
		})
	}
}
