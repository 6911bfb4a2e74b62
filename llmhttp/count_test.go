package llmhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func TestCountAbove(t *testing.T) {
	long := strings.Repeat("x", 4000)
	openAI := `{"model":"m","max_output_tokens":1,"input":"` + long + `"}`
	anthropic := `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"` + long + `"}]}`
	gemini := `{"contents":[{"parts":[{"text":"` + long + `"}]}]}`
	for _, test := range []struct {
		name, path, body string
		above            int
		status           int    // of the count
		counted          string // the path of the count; empty for none
		answer           string // to it
		want             int    // charged input; 0 for the estimate
	}{
		{"OpenAI", "/v1/responses", openAI, 100, 200, "/v1/responses/input_tokens", `{"object":"response.input_tokens","input_tokens":777}`, 777},
		{"Anthropic", "/v1/messages", anthropic, 100, 200, "/v1/messages/count_tokens", `{"input_tokens":777}`, 777},
		{"Gemini", "/v1beta/models/m:generateContent", gemini, 100, 200, "/v1beta/models/m:countTokens", `{"totalTokens":777}`, 777},
		{"off", "/v1/messages", anthropic, 0, 200, "", ``, 0},
		{"below", "/v1/messages", anthropic, 2000, 200, "", ``, 0},
		{"no endpoint for that", "/v1/embeddings", `{"model":"m","input":"` + long + `"}`, 100, 200, "", ``, 0},
		{"a failure", "/v1/messages", anthropic, 100, 404, "/v1/messages/count_tokens", `{}`, 0},
		{"an answer that says nothing", "/v1/messages", anthropic, 100, 200, "/v1/messages/count_tokens", `{}`, 0},
	} {
		for _, replay := range []bool{true, false} {
			t.Run(test.name, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
				var paths []string
				charged := 0
				tr := &llmhttp.Transport{Limiter: rl, CountAbove: test.above, Base: base(func(req *http.Request) (*http.Response, error) {
					body, err := io.ReadAll(req.Body)
					if err != nil {
						t.Error(err)
					}
					if key := req.Header.Get("Authorization"); key != "Bearer key" {
						t.Errorf("%s has the key %q", req.URL.Path, key)
					}
					if req.URL.Path != test.path {
						paths = append(paths, req.URL.Path)
						return response(req, test.status, test.answer), nil
					}
					if string(body) != test.body {
						t.Error("the body of the call was changed")
					}
					charged = rl.Stats("m").ITPM
					return response(req, 200, `{}`), nil
				})}
				var body io.Reader = strings.NewReader(test.body)
				if !replay {
					body = io.MultiReader(body) // which http.NewRequest cannot read again
				}
				req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://llm.test"+test.path, body)
				req.Header.Set("Authorization", "Bearer key")
				req.Header.Set("Content-Type", "application/json")
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				if got := strings.Join(paths, " "); got != test.counted {
					t.Errorf("counted by %q, want %q", got, test.counted)
				}
				if test.want == 0 {
					test.want = 1000
				}
				if charged < test.want || charged > test.want+test.want/20 && test.want == 1000 || charged != test.want && test.want != 1000 {
					t.Errorf("charged %d, want %d", charged, test.want)
				}
			})
		}
	}
}

// A call that is sent again is not counted again.
func TestCountAboveCountsOnce(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000})
	counts, calls := 0, 0
	tr := &llmhttp.Transport{Limiter: rl, CountAbove: 1, Retry: llmhttp.Retry{Max: 3}, Base: base(func(req *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, req.Body)
		if strings.HasSuffix(req.URL.Path, "count_tokens") {
			counts++
			return response(req, 200, `{"input_tokens":50}`), nil
		}
		if calls++; calls == 1 {
			return response(req, 503, `{}`, "Retry-After", "0"), nil
		}
		return response(req, 200, `{}`), nil
	})}
	exchange(t, tr, "http://llm.test/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello there"}]}`)
	if counts != 1 || calls != 2 {
		t.Errorf("%d counts and %d calls", counts, calls)
	}
}

// A user's Estimate is never replaced.
func TestCountAboveLeavesEstimate(t *testing.T) {
	tr := &llmhttp.Transport{
		Limiter: newLimiter(t, ratelimit.ModelQuota{MaxTPM: 100_000}), CountAbove: 1,
		Estimate: func(*llmhttp.Call) (int, int) { return 5, 5 },
		Base: base(func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.URL.Path, "count_tokens") {
				t.Error("it was counted")
			}
			return response(req, 200, `{}`), nil
		}),
	}
	exchange(t, tr, "http://llm.test/v1/messages", `{"model":"m","messages":[{"role":"user","content":"hello there"}]}`)
}
