package llmhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	es "dappco.re/go/core/go-ratelimit/llmhttp/internal/eventstreamtest"
)

// What is counted, told and passed of the new APIs under UnknownDeny, in shapes that clients send.
func TestShapesOfNewCalls(t *testing.T) {
	for _, c := range []struct {
		method, url, ct, body string
		want                  string // told, counted, pass
		up                    bool
	}{
		{"POST", "http://llm.test/v1/conversations", "application/json", `{"items":[{"type":"message","role":"user","content":"hi"}],"metadata":{}}`, "pass", false},
		{"POST", "http://llm.test/v1/conversations/conv_1", "application/json", `{"metadata":{}}`, "pass", false},
		{"POST", "http://llm.test/v1/conversations", "application/json", `{}`, "told", false},
		{"POST", "http://llm.test/v1/conversations/c", "application/json", `{"inputs":[{"role":"user","content":"hi"}]}`, "counted", false},
		{"POST", "http://llm.test/v1/conversations/c", "application/json", `{"inputs":[],"stream":true}`, "counted", false},
		{"POST", "http://llm.test/v1/conversations", "application/json", `{"inputs":"hi"}`, "counted", false},
		{"POST", "http://llm.test/v1/conversations/c", "application/json", `{"tool_confirmations":[{"a":1}]}`, "counted", false},
		{"POST", "http://llm.test/v1/conversations", "application/json", `{"items":`, "told", false},
		{"POST", "http://llm.test/v1/conversations/conv_1/items", "application/json", `{"items":[]}`, "pass", false},
		{"POST", "http://llm.test/model/amazon.nova-sonic-v1%3A0/invoke-with-bidirectional-stream", "application/vnd.amazon.eventstream", "xx", "told", false},
		{"POST", "http://llm.test/async-invoke", "application/json", `{"modelId":"amazon.nova-reel-v1:0","modelInput":{}}`, "told", false},
		{"GET", "http://llm.test/v1/realtime?model=gpt-realtime", "", "", "told", true},
		{"GET", "http://llm.test/openai/v1/realtime?model=gpt-realtime", "", "", "told", true},
		{"GET", "http://llm.test/openai/realtime?deployment=gpt-realtime", "", "", "told", true},
		{"GET", "http://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=secret", "", "", "told", true},
		{"GET", "http://us-central1-aiplatform.googleapis.com/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent", "", "", "told", true},
		{"GET", "http://llm.test/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained", "", "", "told", true},
		{"POST", "http://llm.test/v1/realtime/calls", "application/json", `{"session":{"model":"gpt-realtime"}}`, "told", false},
		{"POST", "http://llm.test/v1/realtime/calls?model=gpt-realtime", "application/sdp", `v=0`, "told", false},
		{"POST", "http://llm.test/v1/realtime/client_secrets", "application/json", `{"session":{"model":"gpt-realtime"}}`, "told", false},
		{"POST", "http://llm.test/v1/responses/resp_1/cancel", "application/json", ``, "pass", false},
		{"POST", "http://llm.test/v1/responses/input_tokens", "application/json", `{"model":"m"}`, "pass", false},
		{"POST", "http://llm.test/v1/responses/compact/", "application/json", `{"model":"m"}`, "counted", false},
		{"POST", "http://llm.test/openai/v1/responses/compact", "application/json", `{"model":"m"}`, "counted", false},
		{"POST", "http://llm.test/v1/projects/p/locations/l/endpoints/123:predict", "application/json", `{"instances":[]}`, "told", false},
		{"POST", "http://llm.test/v1/projects/p/locations/l/endpoints/openapi/chat/completions", "application/json", `{"model":"m"}`, "counted", false},
		{"POST", "http://llm.test/v1/projects/p/locations/l/publishers/google/models/m:predictLongRunning", "application/json", `{"instances":[]}`, "told", false},
		{"POST", "http://llm.test/v1beta/interactions/", "application/json", `{"model":"m","input":"x"}`, "counted", false},
		{"POST", "http://llm.test/v1beta1/projects/p/locations/l/interactions", "application/json", `{"model":"m","input":"x"}`, "counted", false},
		{"POST", "http://llm.test/api/embed", "application/json", `{"model":"m","input":"x"}`, "counted", false},
		{"POST", "http://llm.test/model/m/converse/", "application/json", `{}`, "counted", false},
		{"POST", "http://llm.test/v1/audio/transcriptions", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n", "counted", false},
		{"POST", "http://llm.test/v1/audio/transcriptions", "Multipart/Form-Data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n", "counted", false},
		{"POST", "http://llm.test/v1/moderations", "application/json", `{"input":"x"}`, "counted", false},
		{"POST", "http://llm.test/compatibility/v1/chat/completions", "application/json", `{"model":"m"}`, "counted", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDenier(t, ratelimit.UnknownDeny)
			sent := false
			var kinds []string
			tr := &llmhttp.Transport{Limiter: d.RateLimiter, OnEvent: func(e llmhttp.Event) { kinds = append(kinds, string(e.Kind)+":"+e.Model) }, Base: base(func(req *http.Request) (*http.Response, error) {
				sent = true
				if req.Body != nil {
					b, _ := io.ReadAll(req.Body)
					if string(b) != c.body {
						t.Errorf("sent %q", b)
					}
				}
				return response(req, 200, `{}`), nil
			})}
			req, _ := http.NewRequestWithContext(t.Context(), c.method, c.url, strings.NewReader(c.body))
			if c.up {
				u := upgrade(t, c.url)
				req = u
			} else {
				req.Header.Set("Content-Type", c.ct)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			told := d.reported()
			got := "pass"
			switch {
			case len(told) > 0:
				got = "told"
				if strings.Contains(told[0].Error(), "key=secret") {
					t.Error("key")
				}
			case len(kinds) > 1:
				got = "counted"
			}
			if got != c.want || sent == (c.want == "told") {
				t.Errorf("%s %s: %s sent %v, want %s; %v %v", c.method, c.url, got, sent, c.want, kinds, told)
			}
		})
	}
}

// An exception is known by its name with either case of the first letter.
func TestExceptionNames(t *testing.T) {
	for _, name := range []string{"ThrottlingException", "throttlingException"} {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{novaModel: {MaxTPM: 1_000_000}}})
		_, problem := bedrockCall(t, rl, nova+"converse-stream", `{}`, es.Exception(name, "slow"), 1, true)
		if problem.Problem == nil || problem.Problem.Kind != llmhttp.RateLimited {
			t.Errorf("%s: %+v", name, problem.Problem)
		}
	}
}
