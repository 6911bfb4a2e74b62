package llmhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func TestEstimate(t *testing.T) {
	prompt := strings.Repeat("word ", 800) // 4,000 bytes
	for _, test := range []struct {
		name, path, body string
		quota            ratelimit.ModelQuota
		in, out          int // at least, and at most a tenth more
	}{
		{"four bytes a token, and 256 to write", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 256},
		{"no more than the request allows", "/v1/messages", `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 50},
		{"OpenAI counts max_tokens", "/v1/chat/completions", `{"model":"m","max_completion_tokens":5000,"messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 3980},
		{"embeddings write nothing", "/v1/embeddings", `{"model":"m","input":"` + prompt + `"}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 0},
		{"Gemini counts no output", "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"` + prompt + `"}]}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 0},
		{"escapes are what they stand for", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"content":"` + strings.Repeat(`\u00e4\n`, 1000) + `"}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 750, 1},
		{"an image is 1,000", "/v1/chat/completions", `{"model":"m","max_tokens":1,"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 400_000) + `"}}]}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 1},
		{"so it is at Anthropic", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"` + strings.Repeat("A", 400_000) + `"}}]}]}`, ratelimit.ModelQuota{MaxTPM: 100_000}, 1000, 1},
		{"never more than the quota", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPM: 900}, 900, 0},
		{"never more than any of them", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxITPM: 800, MaxOTPM: 300, MaxTPM: 1000}, 800, 200},
		{"nor than that of the day", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`, ratelimit.ModelQuota{MaxTPD: 500}, 500, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, test.quota)
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				s := rl.Stats("m")
				if s.ITPM < test.in || s.ITPM > test.in+test.in/10 || s.OTPM < test.out || s.OTPM > test.out+test.out/10 {
					t.Errorf("charged %d in and %d out, want about %d and %d", s.ITPM, s.OTPM, test.in, test.out)
				}
				return response(req, 200, `{}`), nil
			})}
			resp, err := post(t, tr, "http://llm.test"+test.path, test.body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 200 {
				t.Fatalf("refused: %s", readAll(t, resp))
			}
			readAll(t, resp)
		})
	}
}

// The expected output follows the outputs of recent answers.
func TestOutputIsLearned(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 1_000_000})
	var wrote, expected int
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		expected = rl.Stats("m").OTPM
		return response(req, 200, fmt.Sprintf(`{"usage":{"input_tokens":1,"output_tokens":%d}}`, wrote)), nil
	})}
	call := func(output int) {
		t.Helper()
		rl.Reset("m")
		wrote = output
		resp, err := post(t, tr, "http://llm.test/v1/messages", `{"model":"m","max_tokens":8000}`)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
	}
	for _, step := range []struct{ output, expected int }{
		{300, 256}, {500, 375}, {200, 625}, {200, 625}, {9000, 625}, {1, 8000},
	} {
		if call(step.output); expected != step.expected {
			t.Errorf("expected %d before it wrote %d, want %d", expected, step.output, step.expected)
		}
	}
	for range 200 {
		call(10)
	}
	if expected != 12 {
		t.Errorf("after many answers of 10 it expects %d", expected)
	}
}
