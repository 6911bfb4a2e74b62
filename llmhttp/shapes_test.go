// Shapes: what happens to each request that a provider takes.

package llmhttp_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// The results of a request: it is counted, told as uncounted, one of the two, or passes in silence.
const (
	isCounted = "counted"
	isTold    = "told"
	isLoud    = "counted or told" // an adapter may come to count it
	isFree    = "free"
)

const chatBody = `{"messages":[{"role":"user","content":"Hi"}],"model":"m"}`

// shapes are requests that generate, and some that do not.
var shapes = []struct {
	url, body string
	want      string
}{
	// OpenAI, and what speaks its API.
	{"https://api.openai.com/v1/chat/completions", chatBody, isCounted},
	{"https://api.openai.com/v1/chat/completions/", chatBody, isCounted},
	{"https://api.openai.com//v1//chat/completions//", chatBody, isCounted},
	{"https://api.openai.com/v1/responses", `{"model":"m","input":"Hi"}`, isCounted},
	{"https://api.openai.com/v1/responses", `{"prompt":{"id":"pmpt_1"}}`, isTold},
	{"https://api.openai.com/v1/responses/compact", `{"model":"m","input":"Hi"}`, isLoud},
	{"https://api.openai.com/v1/completions", `{"model":"m","prompt":"Hi"}`, isCounted},
	{"https://api.openai.com/v1/embeddings", `{"input":"Hi","model":"m"}`, isCounted},
	{"https://api.openai.com/v1/images/generations", `{"model":"m","prompt":"A cat"}`, isLoud},
	{"https://api.openai.com/v1/images/generations", `{"prompt":"A cat"}`, isLoud},
	{"https://api.openai.com/v1/audio/speech", `{"model":"m","input":"Hi","voice":"a"}`, isLoud},
	{"https://api.openai.com/v1/moderations", `{"input":"Hi"}`, isLoud},
	{"https://api.openai.com/v1/videos", `{"model":"m","prompt":"A cat"}`, isCounted},
	{"https://api.openai.com/v1/videos/v_1/remix", `{"prompt":"A dog"}`, isTold},
	{"https://api.openai.com/v1/decisions", `{"model":"m","input":"Hi","questions":[]}`, isTold},
	{"https://api.openai.com/v1/threads/runs", `{"assistant_id":"asst_1"}`, isTold},
	{"https://api.openai.com/v1/threads/t_1/runs", `{"assistant_id":"asst_1"}`, isTold},
	{"https://api.openai.com/v1/threads/t_1/runs/r_1/submit_tool_outputs", `{"tool_outputs":[]}`, isTold},
	{"https://api.openai.com/v1/evals/e_1/runs", `{"data_source":{"model":"m"}}`, isTold},
	{"https://api.openai.com/v1/agents/sessions", `{"agent_id":"a","input":"Hi"}`, isTold},
	{"https://api.openai.com/v1/fine_tuning/jobs", `{"model":"m","training_file":"f"}`, isTold},
	{"https://api.openai.com/v1/realtime/client_secrets", `{"session":{"model":"m"}}`, isTold},
	{"https://api.openai.com/v1/realtime/calls", `{"session":{"model":"m"}}`, isTold},
	{"https://api.openai.com/v1/chatkit/sessions", `{"workflow":{"id":"w"}}`, isTold},
	{"https://api.openai.com/v1/edits", `{"model":"m","input":"Hi"}`, isTold},
	{"https://api.openai.com/v1/engines/m/completions", `{"prompt":"Hi"}`, isTold},
	{"https://api.openai.com/v1/responses/input_tokens", `{"model":"m","input":"Hi"}`, isFree},
	{"https://api.openai.com/v1/responses/r_1/cancel", ``, isFree},
	{"https://api.openai.com/v1/files", `{"model":"m"}`, isFree},
	{"https://api.openai.com/v1/batches", `{"input_file_id":"f","endpoint":"/v1/responses"}`, isFree},
	{"https://api.openai.com/v1/assistants", `{"model":"m"}`, isFree},
	{"https://api.openai.com/v1/conversations", `{"items":[]}`, isFree},
	{"https://api.openai.com/v1/vector_stores", `{"name":"v"}`, isFree},
	{"https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", `{"messages":[]}`, isCounted},
	{"https://r.openai.azure.com/openai/deployments/d/embeddings?api-version=1", `{"input":"Hi"}`, isCounted},
	{"https://r.openai.azure.com/openai/deployments/d/images/generations?api-version=1", `{"prompt":"A cat"}`, isLoud},
	{"https://r.openai.azure.com/openai/deployments/d/extensions/chat/completions", `{"messages":[]}`, isTold},
	{"https://r.openai.azure.com/openai/v1/chat/completions", chatBody, isCounted},
	{"https://r.openai.azure.com/openai/v1/responses?api-version=preview", `{"model":"d","input":"Hi"}`, isCounted},
	{"https://r.openai.azure.com/openai/assistants/asst_1?api-version=1", `{"model":"d"}`, isFree},
	{"https://r.services.ai.azure.com/models/chat/completions", chatBody, isCounted},
	{"https://r.services.ai.azure.com/anthropic/v1/messages", chatBody, isCounted},
	{"https://api.groq.com/openai/v1/chat/completions", chatBody, isCounted},
	{"https://api.groq.com/openai/v1/responses", `{"model":"m","input":"Hi"}`, isCounted},
	{"https://api.groq.com/openai/v1/batches", `{"input_file_id":"f"}`, isFree},
	{"https://openrouter.ai/api/v1/chat/completions", chatBody, isCounted},
	{"https://openrouter.ai/api/v1/chat/completions", `{"models":["m","n"],"messages":[]}`, isCounted},
	{"https://openrouter.ai/api/v1/messages", chatBody, isCounted},
	{"https://api.x.ai/v1/chat/completions", chatBody, isCounted},
	{"https://api.x.ai/v1/videos/generations", `{"model":"m","prompt":"A cat"}`, isTold},
	{"https://api.x.ai/v1/tokenize-text", `{"model":"m","text":"Hi"}`, isFree},
	{"https://api.deepseek.com/chat/completions", chatBody, isCounted},
	{"https://api.deepseek.com/beta/completions", `{"model":"m","prompt":"Hi","suffix":""}`, isCounted},
	{"https://api.deepseek.com/anthropic/v1/messages", chatBody, isCounted},
	{"https://api.together.xyz/v1/chat/completions", chatBody, isCounted},
	{"https://api.together.xyz/v1/rerank", `{"model":"m","query":"Hi","documents":[]}`, isLoud},
	{"https://api.fireworks.ai/inference/v1/chat/completions", chatBody, isCounted},
	{"https://api.fireworks.ai/inference/v1/workflows/accounts/fireworks/models/flux/text_to_image", `{"prompt":"A cat"}`, isTold},
	{"https://api.cerebras.ai/v1/chat/completions", chatBody, isCounted},
	{"https://api.perplexity.ai/chat/completions", chatBody, isCounted},
	{"https://api.perplexity.ai/async/chat/completions", `{"request":{"model":"m","messages":[]}}`, isTold},
	{"https://api.perplexity.ai/v1/sonar", chatBody, isTold},
	// Anthropic.
	{"https://api.anthropic.com/v1/messages", chatBody, isCounted},
	{"https://api.anthropic.com/v1/messages?beta=true", chatBody, isCounted},
	{"https://api.anthropic.com/v1/complete", `{"model":"m","prompt":"Hi"}`, isTold},
	{"https://api.anthropic.com/v1/sessions/s_1/events?beta=true", `{"events":[]}`, isTold},
	{"https://api.anthropic.com/v1/deployments/d_1/run?beta=true", `{}`, isTold},
	{"https://api.anthropic.com/v1/deployments/d_1/pause?beta=true", `{}`, isFree},
	{"https://api.anthropic.com/v1/agents?beta=true", `{"model":"m","name":"a"}`, isFree},
	{"https://api.anthropic.com/v1/messages/count_tokens", chatBody, isFree},
	{"https://api.anthropic.com/v1/messages/batches", `{"requests":[]}`, isFree},
	// Google.
	{"https://generativelanguage.googleapis.com/v1beta/models/m:generateContent", `{"contents":[]}`, isCounted},
	{"https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`, isCounted},
	{"https://generativelanguage.googleapis.com/v1beta/tunedModels/m:generateContent", `{"contents":[]}`, isCounted},
	{"https://generativelanguage.googleapis.com/v1beta/dynamic/m:generateContent", `{"contents":[]}`, isCounted},
	{"https://generativelanguage.googleapis.com/v1beta/dynamic/m:streamGenerateContent?alt=sse", `{"contents":[]}`, isCounted},
	{"https://generativelanguage.googleapis.com/v1beta/tunedModels/m:batchGenerateContent", `{"batch":{}}`, isFree},
	{"https://generativelanguage.googleapis.com/v1beta/models/m:batchEmbedContents", `{"requests":[]}`, isCounted},
	{"https://generativelanguage.googleapis.com/v1beta/interactions", `{"model":"m","input":"Hi"}`, isLoud},
	{"https://generativelanguage.googleapis.com/v1beta/interactions", `{"agent":"deep-research","input":"Hi"}`, isLoud},
	{"https://generativelanguage.googleapis.com/v1beta/models/m:predict", `{"instances":[]}`, isLoud},
	{"https://generativelanguage.googleapis.com/v1beta/models/m:predictLongRunning", `{"instances":[]}`, isTold},
	{"https://generativelanguage.googleapis.com/v1beta/models/m:generateText", `{"prompt":{}}`, isTold},
	{"https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", chatBody, isCounted},
	{"https://generativelanguage.googleapis.com/v1beta/models/m:countTokens", `{"contents":[]}`, isFree},
	{"https://generativelanguage.googleapis.com/v1beta/models/m:batchGenerateContent", `{"batch":{}}`, isFree},
	{"https://generativelanguage.googleapis.com/v1beta/cachedContents", `{"model":"models/m"}`, isFree},
	{"https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/m:generateContent", `{}`, isCounted},
	{"https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", `{}`, isCounted},
	{"https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict", `{"model":"m"}`, isLoud},
	{"https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/1:generateContent", `{}`, isLoud},
	{"https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/1:predict", `{}`, isTold},
	{"https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi/chat/completions", chatBody, isCounted},
	{"https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/reasoningEngines/1:streamQuery", `{"input":{}}`, isTold},
	// AWS.
	{"https://bedrock-runtime.r.amazonaws.com/model/m/converse", `{"messages":[]}`, isLoud},
	{"https://bedrock-runtime.r.amazonaws.com/model/m/converse-stream", `{"messages":[]}`, isLoud},
	{"https://bedrock-runtime.r.amazonaws.com/model/arn%3Aaws%3Abedrock%3Ar%3A1%3Ainference-profile%2Fm/invoke", `{}`, isLoud},
	{"https://bedrock-runtime.r.amazonaws.com/model/m/invoke-with-response-stream", `{}`, isLoud},
	{"https://bedrock-runtime.r.amazonaws.com/model/m/invoke-with-bidirectional-stream", `{}`, isTold},
	{"https://bedrock-runtime.r.amazonaws.com/async-invoke", `{"modelId":"m"}`, isTold},
	{"https://bedrock-agent-runtime.r.amazonaws.com/optimize-prompt", `{"targetModelId":"m"}`, isTold},
	{"https://bedrock-runtime.r.amazonaws.com/model/m/count-tokens", `{"input":{}}`, isFree},
	{"https://runtime.sagemaker.r.amazonaws.com/endpoints/e/invocations", `{"inputs":"Hi"}`, isTold},
	// Others.
	{"https://api.cohere.com/v2/chat", chatBody, isLoud},
	{"https://api.cohere.com/v1/chat", `{"message":"Hi"}`, isLoud},
	{"https://api.cohere.com/v2/embed", `{"model":"m","texts":[]}`, isLoud},
	{"https://api.cohere.com/v1/tokenize", `{"model":"m","text":"Hi"}`, isFree},
	{"https://api.mistral.ai/v1/fim/completions", `{"model":"m","prompt":"Hi"}`, isCounted},
	{"https://api.mistral.ai/v1/agents/completions", `{"agent_id":"ag_1","messages":[]}`, isLoud},
	{"https://api.mistral.ai/v1/conversations", `{"agent_id":"ag_1","inputs":"Hi"}`, isLoud},
	{"https://api.mistral.ai/v1/conversations/c_1", `{"inputs":"Hi"}`, isLoud},
	{"https://api.mistral.ai/v1/ocr", `{"model":"m","document":{}}`, isLoud},
	{"https://api.replicate.com/v1/predictions", `{"version":"v","input":{}}`, isTold},
	{"https://api.replicate.com/v1/models/o/m/predictions", `{"input":{}}`, isTold},
	{"https://api-inference.huggingface.co/models/o/m", `{"inputs":"Hi"}`, isTold},
	{"https://router.huggingface.co/v1/chat/completions", chatBody, isCounted},
	{"https://router.huggingface.co/hf-inference/models/o/m/pipeline/feature-extraction", `{"inputs":"Hi"}`, isTold},
	{"https://api.cloudflare.com/client/v4/accounts/a/ai/run/@cf/meta/llama", `{"prompt":"Hi"}`, isTold},
	{"https://gateway.ai.cloudflare.com/v1/a/g", `[{"provider":"openai","endpoint":"responses","query":{"model":"m"}}]`, isTold},
	{"https://gateway.ai.cloudflare.com/v1/a/g/workers-ai/@cf/meta/llama", `{"prompt":"Hi"}`, isTold},
	{"https://gateway.ai.cloudflare.com/v1/a/g/huggingface/o/m", `{"inputs":"Hi"}`, isTold},
	{"https://gateway.ai.cloudflare.com/v1/a/g/replicate/predictions", `{"version":"v","input":{}}`, isTold},
	{"https://gateway.ai.cloudflare.com/v1/a/g/openai/responses", `{"model":"m","input":"Hi"}`, isCounted},
	{"https://d.cloud.databricks.com/serving-endpoints/e/invocations", `{"messages":[]}`, isTold},
	{"https://a.snowflakecomputing.com/api/v2/cortex/inference:complete", chatBody, isTold},
	{"https://us-south.ml.cloud.ibm.com/ml/v1/text/generation?version=1", `{"model_id":"m","input":"Hi"}`, isTold},
	{"https://hunyuan.tencentcloudapi.com/", `{"Model":"m","Messages":[]}`, isTold},
	{"https://dashscope.aliyuncs.com/api/v1/services/aigc/text-generation/generation", `{"model":"m","input":{}}`, isTold},
	{"https://llm.test/v1/chat/completions/stream", chatBody, isTold},
	{"https://llm.test/api/agents/chat", chatBody, isTold},
	{"https://llm.test/some/path", `{"stream":true,"prompt":"Hi","model":"m"}`, isTold},
	{"https://llm.test/some/path", `{"mod\u0065l":"m"}`, isTold},
	{"https://llm.test/some/path", `{"prompt":"Hi"}`, isFree},
	{"https://llm.test/some/path", `{"data":{"model":"m"}}`, isFree},
	// Servers of one's own.
	{"http://localhost:11434/api/chat", chatBody, isCounted},
	{"http://localhost:11434/api/generate", `{"Model":"m","prompt":"Hi"}`, isCounted},
	{"http://localhost:11434/api/embed", `{"model":"m","input":"Hi"}`, isLoud},
	{"http://localhost:11434/api/show", `{"model":"m"}`, isFree},
	{"http://localhost:11434/api/pull", `{"model":"m"}`, isFree},
	{"http://localhost:8080/completion", `{"prompt":"Hi"}`, isTold},
	{"http://localhost:8080/completions", `{"prompt":"Hi"}`, isTold},
	{"http://localhost:8080/infill", `{"input_prefix":"a","input_suffix":"b"}`, isTold},
	{"http://localhost:8080/v1/chat/completions", `{"messages":[]}`, isTold},
	{"http://localhost:8080/tokenize", `{"content":"Hi","model":"m"}`, isFree},
	{"http://localhost:8080/v1/models/load", `{"model":"m"}`, isFree},
	{"http://localhost:8000/generate", `{"inputs":"Hi"}`, isTold},
	{"http://localhost:8000/generate_stream", `{"inputs":"Hi"}`, isTold},
	{"http://localhost:8000/pooling", `{"model":"m","input":"Hi"}`, isTold},
	{"http://localhost:8000/v1/chat/completions/batch", `{"model":"m","messages":[]}`, isTold},
	{"http://localhost:8000/v2/models/m/generate", `{"text_input":"Hi"}`, isTold},
	{"http://localhost:1234/api/v1/chat", `{"model":"m","input":"Hi"}`, isTold},
}

// outcome sends a request through a Transport of a limiter with a policy, and returns what happens
// to it, and whether it was sent.
func outcome(t *testing.T, policy ratelimit.UnknownPolicy, req *http.Request, settings func(*llmhttp.Transport)) (got string, sent bool, err error) {
	t.Helper()
	var told []*llmhttp.UncountedError
	var mu sync.Mutex
	events := new(listener)
	rl := newLimiterWith(t, ratelimit.Config{
		Unknown: policy, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 10}}, Events: events,
		OnError: func(err error) {
			if is := (*llmhttp.UncountedError)(nil); errors.As(err, &is) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, is)
			}
		},
	})
	defer rl.Close()
	want := ""
	if req.GetBody != nil {
		body, _ := req.GetBody()
		all, _ := io.ReadAll(body)
		want = string(all)
	}
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		sent = true
		if req.Body != nil {
			if body, err := io.ReadAll(req.Body); err != nil || want != "" && string(body) != want {
				t.Errorf("sent %.100q, %v, want %.100q", body, err, want)
			}
			req.Body.Close()
		}
		return response(req, 200, "{}"), nil
	})}
	if settings != nil {
		settings(tr)
	}
	resp, err := tr.RoundTrip(req)
	if err == nil {
		if p := llmhttp.Classify(resp); p != nil && p.Kind == llmhttp.NotSent {
			err = p
		}
		readAll(t, resp)
	}
	synctest.Wait()
	counted, uncounted := 0, 0
	for _, e := range events.take() {
		switch e.Kind {
		case ratelimit.EventAdmitted:
			counted++
		case ratelimit.EventUncounted:
			uncounted++
			if e.Path == "" || strings.Contains(e.Path, "?") {
				t.Errorf("told of the path %q", e.Path)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case counted == 1 && uncounted == 0 && len(told) == 0:
		return isCounted, sent, err
	case counted == 0 && uncounted == 1 && len(told) == 1:
		return isTold, sent, err
	case counted == 0 && uncounted == 0 && len(told) == 0:
		return isFree, sent, err
	}
	return fmt.Sprint(counted, " counted, ", uncounted, " events, errors ", told), sent, err
}

// No request that generates passes without a word: it is counted, or told and under UnknownDeny not
// sent.
func TestShapesOfRequests(t *testing.T) {
	generating := 0
	for _, shape := range shapes {
		if shape.want != isFree {
			generating++
		}
		for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
			synctest.Test(t, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), "POST", shape.url, strings.NewReader(shape.body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				got, sent, err := outcome(t, policy, req, nil)
				if got != shape.want && !(shape.want == isLoud && (got == isCounted || got == isTold)) {
					t.Errorf("%s %s is %s, want %s", shape.url, shape.body, got, shape.want)
				}
				refused := policy == ratelimit.UnknownDeny && got == isTold
				if sent == refused || refused != errors.Is(err, ratelimit.ErrNeverFits) {
					t.Errorf("%s %s under %v: sent %t, %v", shape.url, shape.body, policy, sent, err)
				}
			})
		}
	}
	if generating < 60 {
		t.Errorf("%d shapes generate, want 60 at least", generating)
	}
}

// Bodies that servers take.
func TestFormsOfBodies(t *testing.T) {
	compressed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return b.String()
	}
	deflated := func(text string) string {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return b.String()
	}
	const late = 20 << 20 / min(racetest.Factor, 8) // over MaxBody
	big := `{"messages":"` + strings.Repeat("x", late) + `","max_tokens":5,"model":"m"}`
	for _, test := range []struct {
		name, body  string
		headers     []string
		noGetBody   bool
		want, want2 string // want2 on a path that no adapter knows
	}{
		{"plain", chatBody, nil, false, isCounted, isTold},
		{"without GetBody", chatBody, nil, true, isCounted, isTold},
		{"gzip", compressed(chatBody), []string{"Content-Encoding: gzip"}, false, isCounted, isTold},
		{"gzip without GetBody", compressed(chatBody), []string{"Content-Encoding: GZIP"}, true, isCounted, isTold},
		{"deflate", deflated(chatBody), []string{"Content-Encoding: deflate"}, true, isCounted, isTold},
		{"gzip that is none", chatBody, []string{"Content-Encoding: gzip"}, true, isTold, isFree},
		{"an encoding that cannot be read", chatBody, []string{"Content-Encoding: zstd"}, true, isTold, isFree},
		{"no type", chatBody, []string{"Content-Type:"}, false, isCounted, isTold},
		{"octets", chatBody, []string{"Content-Type: application/octet-stream"}, false, isCounted, isTold},
		{"another type", chatBody, []string{"Content-Type: text/html"}, false, isCounted, isFree},
		{"multipart", "--b\r\n\r\nm\r\n--b--", []string{"Content-Type: multipart/form-data; boundary=b"}, false, isTold, isFree},
		{"a byte order mark", "\ufeff" + chatBody, nil, false, isCounted, isTold},
		{"an escaped key", `{"\u006dodel":"m"}`, nil, false, isCounted, isTold},
		{"another case", `{"MODEL":"m"}`, nil, false, isCounted, isTold},
		{"models", `{"model":null,"models":["m","n"]}`, nil, false, isCounted, isTold},
		{"model_id", `{"model_id":"m"}`, nil, false, isTold, isTold},
		{"a number", `{"model":7}`, nil, false, isTold, isFree},
		{"no body", "", nil, false, isTold, isFree},
		{"a large body", big, nil, false, isCounted, isFree},
		{"a large body, gzipped", compressed(big), []string{"Content-Encoding: gzip"}, false, isCounted, isFree},
		{"a large body without GetBody", big, nil, true, isTold, isFree},
	} {
		for i, path := range []string{"/v1/chat/completions", "/v1/unheard-of"} {
			for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
				synctest.Test(t, func(t *testing.T) {
					body := io.Reader(strings.NewReader(test.body))
					if test.noGetBody {
						body = io.MultiReader(body)
					}
					req, err := http.NewRequestWithContext(t.Context(), "POST", "http://llm.test"+path, body)
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Content-Type", "application/json")
					for _, line := range test.headers {
						name, value, _ := strings.Cut(line, ":")
						if req.Header.Set(name, strings.TrimSpace(value)); value == "" {
							req.Header.Del(name)
						}
					}
					want := test.want
					if i == 1 {
						want = test.want2
					}
					got, sent, err := outcome(t, policy, req, func(tr *llmhttp.Transport) {
						tr.AddStreamUsage = true
						if racetest.Factor > 1 {
							tr.MaxBody = 2 << 20
						}
						tr.Estimate = func(c *llmhttp.Call) (int, int) {
							if c.Model != "m" || test.body == big && (c.MaxOutput != 5 || c.BodySize != int64(len(big))) {
								t.Errorf("%+v", c)
							}
							return 1, 1
						}
					})
					if got != want {
						t.Errorf("%s at %s is %s, want %s", test.name, path, got, want)
					}
					if refused := policy == ratelimit.UnknownDeny && want == isTold; sent == refused {
						t.Errorf("%s at %s under %v: sent %t, %v", test.name, path, policy, sent, err)
					}
				})
			}
		}
	}
}
