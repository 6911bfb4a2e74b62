package sdktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/tmc/langchaingo/llms"
	lcanthropic "github.com/tmc/langchaingo/llms/anthropic"
	lcopenai "github.com/tmc/langchaingo/llms/openai"
)

// others are SDKs that TestTransport does not drive.
var others = []api{
	{"go-openai", "openai", false, func(hc *http.Client, address string, _ bool) (call, error) {
		config := goopenai.DefaultConfig(key)
		config.BaseURL, config.HTTPClient = address+"/v1", hc
		client := goopenai.NewClientWithConfig(config)
		return func(ctx context.Context, prompt string, most int64) error {
			_, err := client.CreateChatCompletion(ctx, goopenai.ChatCompletionRequest{
				Model: model, MaxCompletionTokens: int(most),
				Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: prompt}},
			})
			return err
		}, nil
	}},
	{"go-openai, streamed", "openai", false, func(hc *http.Client, address string, _ bool) (call, error) {
		config := goopenai.DefaultConfig(key)
		config.BaseURL, config.HTTPClient = address+"/v1", hc
		client := goopenai.NewClientWithConfig(config)
		return func(ctx context.Context, prompt string, most int64) error {
			stream, err := client.CreateChatCompletionStream(ctx, goopenai.ChatCompletionRequest{
				Model: model, Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: prompt}},
			})
			if err == nil {
				err = stream.Close()
			}
			return err
		}, nil
	}},
	{"langchaingo openai", "openai", false, func(hc *http.Client, address string, _ bool) (call, error) {
		llm, err := lcopenai.New(lcopenai.WithToken(key), lcopenai.WithModel(model), lcopenai.WithBaseURL(address+"/v1"), lcopenai.WithHTTPClient(hc))
		return func(ctx context.Context, prompt string, _ int64) error {
			_, err := llms.GenerateFromSinglePrompt(ctx, llm, prompt)
			return err
		}, err
	}},
	{"langchaingo anthropic", "anthropic", false, func(hc *http.Client, address string, _ bool) (call, error) {
		llm, err := lcanthropic.New(lcanthropic.WithToken(key), lcanthropic.WithModel(model), lcanthropic.WithBaseURL(address+"/v1"), lcanthropic.WithHTTPClient(hc))
		return func(ctx context.Context, prompt string, _ int64) error {
			_, err := llms.GenerateFromSinglePrompt(ctx, llm, prompt)
			return err
		}, err
	}},
}

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// fullLimiter returns a limiter whose minute is used up.
func fullLimiter(t *testing.T) *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{model: {MaxRPM: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	rl.RecordUsage(model, 1, 1)
	return rl
}

// FromError finds the refusal of the Transport in the error of each SDK, as a response and as an
// error, where the SDK keeps that.
func TestFromErrorRefused(t *testing.T) {
	for _, a := range append(apis[:len(apis):len(apis)], others...) {
		for _, asError := range []bool{false, true} {
			if asError && strings.HasPrefix(a.name, "langchaingo") {
				continue // it replaces every error of the client by one of its own
			}
			t.Run(fmt.Sprintf("%s, as an error: %t", a.name, asError), func(t *testing.T) {
				call, err := a.client(&http.Client{Transport: &llmhttp.Transport{
					Limiter: fullLimiter(t), MaxWait: time.Second, RefuseWithError: asError,
				}}, "http://provider.test", false)
				if err != nil {
					t.Fatal(err)
				}
				err = call(t.Context(), "a prompt", maxTokens)
				p, ok := llmhttp.FromError(fmt.Errorf("ask: %w", err))
				if !ok {
					t.Fatalf("nothing found in %T %v", err, err)
				}
				if !errors.Is(p, llmhttp.ErrNotSent) || !errors.Is(p, ratelimit.ErrMaxWait) || p.Code != "rpm_exceeded" || p.Model != model || p.RetryAfter < 50*time.Second || p.RetryAfter > time.Minute+time.Second {
					t.Errorf("found %+v in %T %v", *p, err, err)
				}
			})
		}
	}
}

// FromError finds the problem of a provider in the errors that keep more than a text.
func TestFromErrorOfProvider(t *testing.T) {
	answers := map[string]struct{ body, code string }{
		"openai":    {`{"error":{"message":"Rate limit reached","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, "rate_limit_exceeded"},
		"anthropic": {`{"type":"error","error":{"type":"rate_limit_error","message":"Number of tokens"}}`, "rate_limit_error"},
		"gemini":    {`{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}`, "RESOURCE_EXHAUSTED"},
	}
	for _, a := range append(apis[:len(apis):len(apis)], others...) {
		t.Run(a.name, func(t *testing.T) {
			answer := answers[a.provider]
			call, err := a.client(&http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
				h := http.Header{"Content-Type": {"application/json"}, "Retry-After": {"7"}}
				return &http.Response{Status: "429 Too Many Requests", StatusCode: 429, Header: h, Body: io.NopCloser(strings.NewReader(answer.body)), Request: req, ProtoMajor: 1, ProtoMinor: 1}, nil
			})}, "http://provider.test", false)
			if err != nil {
				t.Fatal(err)
			}
			err = call(t.Context(), "a prompt", maxTokens)
			p, ok := llmhttp.FromError(err)
			if strings.HasPrefix(a.name, "langchaingo") {
				if ok {
					t.Errorf("found %v in the text of a provider", p)
				}
				return
			}
			wait := 7 * time.Second
			if strings.HasPrefix(a.name, "go-openai") {
				wait = 0 // it keeps no header
			}
			if !ok || !errors.Is(p, llmhttp.ErrRateLimited) || p.Code != answer.code || p.RetryAfter != wait {
				t.Errorf("found %+v in %T %v", p, err, err)
			}
		})
	}
}
