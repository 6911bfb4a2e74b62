package llmhttp_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	es "dappco.re/go/core/go-ratelimit/llmhttp/internal/eventstreamtest"
	"dappco.re/go/core/go-ratelimit/money"
)

const novaModel = "amazon.nova-pro-v1:0"

// pieces is a body that is read in pieces of a size.
type pieces struct {
	rest string
	size int
}

func (p *pieces) Read(to []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(to[:min(len(to), p.size)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// bedrockCall makes a call whose answer comes in pieces of a size, and returns what was told of it.
// If it is not whole, it is closed before its end was read.
func bedrockCall(t *testing.T, rl *ratelimit.RateLimiter, url, request, answer string, size int, whole bool) (settled, problem llmhttp.Event) {
	t.Helper()
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		resp := response(req, 200, "", eventStream)
		resp.Body, resp.ContentLength = io.NopCloser(&pieces{answer, size}), -1
		return resp, nil
	}), OnEvent: func(e llmhttp.Event) {
		switch e.Kind {
		case llmhttp.EventSettled:
			settled = e
		case llmhttp.EventProblem:
			problem = e
		}
	}}
	resp, err := post(t, tr, "http://llm.test"+url, request)
	if err != nil {
		t.Fatal(err)
	}
	if whole {
		if got := readAll(t, resp); got != answer {
			t.Errorf("the answer came as %.200q", got)
		}
		return settled, problem
	}
	if got, err := io.ReadFull(resp.Body, make([]byte, len(answer))); err != nil {
		t.Errorf("read %d: %v", got, err)
	}
	resp.Body.Close()
	return settled, problem
}

// Frames are read however they are cut.
func TestFramesInPieces(t *testing.T) {
	for name, test := range map[string]struct{ operation, answer string }{
		"converse-stream": {"converse-stream", es.Event("contentBlockDelta", deltas) + es.Event("metadata", converseEnd)},
		"invoke":          {"invoke-with-response-stream", es.Chunks(claudeBegin, claudeText, claudeStop, claudeEnd)},
	} {
		for size := 1; size <= len(test.answer); size += min(racetest.Factor, 7) {
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxTPM: 1_000_000}}})
			settled, _ := bedrockCall(t, rl, nova+test.operation, `{}`, test.answer, size, true)
			want := ratelimit.Usage{PromptTokens: 16, OutputTokens: 7}
			if name == "invoke" {
				want = ratelimit.Usage{PromptTokens: 27, OutputTokens: 15}
			}
			if settled.Settled != want || settled.Source != llmhttp.SourceReported {
				t.Fatalf("%s in pieces of %d: settled %+v by %q, want %+v", name, size, settled.Settled, settled.Source, want)
			}
		}
	}
}

// A stream that is cut, closed or damaged counts the larger of what it said and the estimate; one
// of which the usage was read is whole.
func TestFramesCutEarly(t *testing.T) {
	const limit = `{"max_tokens":500,"inferenceConfig":{"maxTokens":500}}`
	damaged := []byte(es.Event("metadata", converseEnd))
	damaged[40] ^= 1
	text := es.Event("contentBlockDelta", deltas)
	long := es.Event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"`+strings.Repeat("x", 4000)+`"}}}`)
	for _, test := range []struct {
		name, operation, answer string
		whole                   bool
		output                  int // billed
		source                  llmhttp.Source
	}{
		{"closed", "converse-stream", text, false, 500, llmhttp.SourceEstimate},
		{"ended between two frames", "converse-stream", text, true, 500, llmhttp.SourceEstimate},
		{"ended within a frame", "converse-stream", text + text[:20], true, 500, llmhttp.SourceEstimate},
		{"closed after more than the estimate", "converse-stream", long, false, 1000, llmhttp.SourceEstimate},
		{"closed after a large frame", "converse-stream", es.Event("contentBlockDelta", `{"delta":{"text":"`+strings.Repeat("x", 2<<20)+`"}}`), false, (2<<20 + 21 + 3) / 4, llmhttp.SourceEstimate},
		{"damaged", "converse-stream", text + string(damaged), true, 500, llmhttp.SourceEstimate},
		{"closed after the usage", "converse-stream", text + es.Event("metadata", converseEnd), false, 7, llmhttp.SourceReported},
		{"invoke, closed", "invoke-with-response-stream", es.Chunks(claudeBegin, claudeText), false, 500, llmhttp.SourceEstimate},
		{"invoke, closed after the reason to stop", "invoke-with-response-stream", es.Chunks(claudeBegin, claudeText, claudeStop), false, 15, llmhttp.SourceReported},
		{"invoke, Llama", "invoke-with-response-stream", es.Chunks(`{"generation":"` + strings.Repeat("x", 4000) + `","prompt_token_count":null,"generation_token_count":1}`), true, 1000, llmhttp.SourceEstimate},
		{"invoke, no base64", "invoke-with-response-stream", es.Event("chunk", `{"bytes":"?"}`), true, 500, llmhttp.SourceEstimate},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{
				Quotas: map[string]ratelimit.ModelQuota{novaModel: {MaxTPM: 10_000_000, MaxSpendPerDay: 1000 * money.Dollar}},
				Prices: map[string]money.Price{novaModel: {Output: money.Dollar}},
			})
			settled, _ := bedrockCall(t, rl, nova+test.operation, limit, test.answer, 1000, test.whole)
			if got, want := rl.Stats(novaModel).SpendDay, money.Amount(test.output); got != want || settled.Source != test.source {
				t.Errorf("costs %v by %q, want %v by %q", got, settled.Source, want, test.source)
			}
			if n := rl.Estimate(novaModel).Answers; test.source == llmhttp.SourceEstimate && n > 0 {
				t.Errorf("learned from %d answers", n)
			}
		})
	}
}

// Bedrock takes max_tokens from the quota when a call comes, and in the end the output by the
// model's burndown rate.
func TestBurndown(t *testing.T) {
	for _, test := range []struct {
		model          string
		limit          string
		charged, final int
	}{
		{novaModel, `{"inferenceConfig":{"maxTokens":1000}}`, 1000, 10},
		{novaModel, `{}`, 20, 10},
		{"anthropic.claude-3-7-sonnet-20250219-v1:0", `{}`, 100, 50},
		{"us.anthropic.claude-sonnet-4-20250514-v1:0", `{"inferenceConfig":{"maxTokens":1000}}`, 1000, 50},
		{"us.anthropic.claude-sonnet-4-20250514-v1:0", `{"inferenceConfig":{"maxTokens":10}}`, 50, 50},
		{"global.anthropic.claude-haiku-4-5-20251001-v1:0", `{}`, 100, 50},
		{"anthropic.claude-v2:1", `{}`, 100, 50},
		{"us.anthropic.claude-opus-4-8", `{}`, 300, 150},
		{"anthropic.claude-opus-5-5-v1:0", `{}`, 200, 100},
		{"arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-fable-5-1", `{}`, 200, 100},
		{"amazon.titan-embed-text-v2:0", `{}`, 0, 0},
	} {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxTPM: 1_000_000}}})
		var settled llmhttp.Event
		tr := &llmhttp.Transport{
			Limiter: rl, FirstOutput: 20, Base: reply(200, `{"usage":{"inputTokens":3,"outputTokens":10}}`),
			OnEvent: func(e llmhttp.Event) { settled = e },
		}
		resp, err := post(t, tr, "http://llm.test/model/"+test.model+"/converse", test.limit)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if settled.Charged.OutputTokens != test.charged || settled.Settled.OutputTokens != test.final {
			t.Errorf("%s with %s: charged %d and %d, want %d and %d", test.model, test.limit, settled.Charged.OutputTokens, settled.Settled.OutputTokens, test.charged, test.final)
		}
		if learned := rl.Estimate(test.model).OutputTokens; test.final > 0 && (learned < 10 || learned > 13) {
			t.Errorf("%s: learned %d", test.model, learned)
		}
	}
}

// An exception in the stream of an answer with status 200 is what the same error is as an answer.
func TestExceptionInStream(t *testing.T) {
	text := es.Event("contentBlockDelta", deltas)
	const quick = "Too many tokens, please wait before trying again."
	for _, test := range []struct {
		name, answer string
		kind         llmhttp.ProblemKind
		code         string
		status       int
		settled      ratelimit.Usage
		refused      string // as the limiter tells it
		pauses       time.Duration
	}{
		{"throttled at once", es.Exception("throttlingException", quick), llmhttp.RateLimited, "ThrottlingException", 429, ratelimit.Usage{}, "rate_limited", time.Second},
		{"throttled later", text + es.Exception("throttlingException", quick), llmhttp.RateLimited, "ThrottlingException", 429, ratelimit.Usage{PromptTokens: 2, OutputTokens: 256}, "rate_limited", time.Second},
		{"the day", es.Exception("throttlingException", "Too many tokens per day, please wait before trying again."), llmhttp.DailyQuota, "ThrottlingException", 429, ratelimit.Usage{}, "daily_quota", 24 * time.Hour},
		{"overloaded", es.Exception("serviceUnavailableException", "Bedrock is unable to process your request."), llmhttp.Overloaded, "ServiceUnavailableException", 503, ratelimit.Usage{}, "overloaded", time.Second},
		{"the model failed", es.Exception("modelStreamErrorException", "x"), llmhttp.Failed, "ModelStreamErrorException", 424, ratelimit.Usage{PromptTokens: 2, OutputTokens: 256}, "", 0},
		{"Bedrock failed", es.Exception("internalServerException", "x"), llmhttp.Failed, "InternalServerException", 500, ratelimit.Usage{PromptTokens: 2, OutputTokens: 256}, "", 0},
		{"rejected", es.Exception("validationException", "x"), llmhttp.Rejected, "ValidationException", 400, ratelimit.Usage{}, "", 0},
		{"an unknown error", es.Message("", es.Header{Name: ":message-type", Value: "error"}, es.Header{Name: ":error-code", Value: "secret stuff"}), llmhttp.Failed, "", 500, ratelimit.Usage{PromptTokens: 2, OutputTokens: 256}, "", 0},
	} {
		for _, whole := range []bool{true, false} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := new(listener)
					rl := newLimiterWith(t, ratelimit.Config{Events: l, Quotas: map[string]ratelimit.ModelQuota{novaModel: {MaxTPM: 1_000_000}}})
					defer rl.Close()
					settled, problem := bedrockCall(t, rl, nova+"converse-stream", `{"a":"aaa"}`, test.answer, 1000, whole)
					p := problem.Problem
					if p == nil || p.Kind != test.kind || p.Code != test.code || p.Status != test.status || problem.Status != 200 {
						t.Fatalf("told %+v with status %d", p, problem.Status)
					}
					want := test.settled
					if want.PromptTokens > 0 {
						want.PromptTokens = 1
					}
					if settled.Settled != want {
						t.Errorf("settled %+v by %q, want %+v", settled.Settled, settled.Source, want)
					}
					left := max(time.Until(rl.Stats(novaModel).CooldownUntil), 0)
					if left < test.pauses || left > test.pauses+test.pauses/10+time.Second {
						t.Errorf("pauses for %v, want %v", left, test.pauses)
					}
					refused := ""
					for _, e := range l.take() {
						if e.Kind == ratelimit.EventProviderRefused {
							refused = e.Problem
							if e.Status != test.status {
								t.Errorf("the limiter tells a status of %d", e.Status)
							}
						}
					}
					if refused != test.refused {
						t.Errorf("the limiter tells %q, want %q", refused, test.refused)
					}
				})
			})
		}
	}
}

// Several throttled streams in a row lengthen the pause as several refusals do: the 200 in front is
// no success. One that begins is.
func TestExceptionsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{novaModel: {MaxTPM: 1_000_000}}})
		defer rl.Close()
		answers := []string{es.Exception("throttlingException", "slow"), es.Exception("throttlingException", "slow"), es.Event("metadata", converseEnd), es.Exception("throttlingException", "slow")}
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			answer := answers[0]
			answers = answers[1:]
			return response(req, 200, answer, eventStream), nil
		})}
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 0, time.Second} {
			resp, err := post(t, tr, "http://llm.test"+nova+"converse-stream", `{}`)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			if left := time.Until(rl.Stats(novaModel).CooldownUntil); want > 0 && (left < want || left > want+want/10) || want == 0 && left > 0 {
				t.Errorf("after answer %d: pauses for %v, want %v", i, left, want)
			}
		}
	})
}

// The refusal has a form that AWS's SDKs know, and FromError finds it in its text.
func TestBedrockRefusal(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{novaModel: {MaxRPM: 1}}})
	rl.RecordUsage(novaModel, 1, 1)
	resp, err := post(t, &llmhttp.Transport{Limiter: rl, MaxWait: time.Second}, "http://llm.test"+nova+"converse", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	text := readAll(t, resp)
	if resp.StatusCode != 429 || !strings.HasPrefix(text, `{"__type":"ServiceQuotaExceededException","message":"go-ratelimit: the call was not sent (rpm_exceeded, max_wait): `) {
		t.Errorf("refused with %d %s", resp.StatusCode, text)
	}
	if p, ok := llmhttp.FromError(errors.New(text)); !ok || p.Kind != llmhttp.NotSent || p.Model != novaModel {
		t.Errorf("found %v", p)
	}
}
