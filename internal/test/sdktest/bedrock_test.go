package sdktest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/bedrock"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

const bedrockAddress = "http://bedrock-runtime.us-east-1.amazonaws.com"

var bedrockProvider = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return bedrockKeys, nil })

// awsSDK makes a client for each call: the streams of one share a decoder without a lock in
// smithy-go v1.28.9.
func awsSDK(do func(context.Context, *bedrockruntime.Client, string, int32) error) func(*http.Client) call {
	return func(hc *http.Client) call {
		return func(ctx context.Context, prompt string, most int64) error {
			return do(ctx, bedrockruntime.New(bedrockruntime.Options{
				Region: bedrockRegion, Credentials: bedrockProvider, HTTPClient: hc, BaseEndpoint: aws.String(bedrockAddress),
			}), prompt, int32(most))
		}
	}
}

func anthropicBedrock(do func(context.Context, *anthropic.Client, string, int64) error) func(*http.Client) call {
	return func(hc *http.Client) call {
		client := anthropic.NewClient(
			bedrock.WithConfig(aws.Config{Region: bedrockRegion, Credentials: bedrockProvider}),
			anthropicoption.WithHTTPClient(hc), anthropicoption.WithBaseURL(bedrockAddress),
		)
		return func(ctx context.Context, prompt string, most int64) error { return do(ctx, &client, prompt, most) }
	}
}

func claudeBody(prompt string, most int32) []byte {
	return fmt.Appendf(nil, `{"anthropic_version":"bedrock-2023-05-31","max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, most, prompt)
}

func userMessage(prompt string) []types.Message {
	return []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: prompt}}}}
}

// bedrockCalls are the ways to call Bedrock, each with the retries that the SDK has by default.
var bedrockCalls = []struct {
	name    string
	streams bool
	client  func(*http.Client) call
}{
	{"aws, Converse", false, awsSDK(func(ctx context.Context, c *bedrockruntime.Client, prompt string, most int32) error {
		_, err := c.Converse(ctx, &bedrockruntime.ConverseInput{
			ModelId: aws.String(bedrockModel), Messages: userMessage(prompt),
			InferenceConfig: &types.InferenceConfiguration{MaxTokens: aws.Int32(most)},
		})
		return err
	})},
	{"aws, ConverseStream", true, awsSDK(func(ctx context.Context, c *bedrockruntime.Client, prompt string, most int32) error {
		answer, err := c.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{
			ModelId: aws.String(bedrockModel), Messages: userMessage(prompt),
			InferenceConfig: &types.InferenceConfiguration{MaxTokens: aws.Int32(most)},
		})
		if err != nil {
			return err
		}
		told := false
		for event := range answer.GetStream().Events() {
			_, ends := event.(*types.ConverseStreamOutputMemberMetadata)
			told = told || ends
		}
		return ended(answer.GetStream(), told)
	})},
	{"aws, InvokeModel", false, awsSDK(func(ctx context.Context, c *bedrockruntime.Client, prompt string, most int32) error {
		_, err := c.InvokeModel(ctx, &bedrockruntime.InvokeModelInput{ModelId: aws.String(bedrockModel), Body: claudeBody(prompt, most), ContentType: aws.String("application/json")})
		return err
	})},
	{"aws, InvokeModelWithResponseStream", true, awsSDK(func(ctx context.Context, c *bedrockruntime.Client, prompt string, most int32) error {
		answer, err := c.InvokeModelWithResponseStream(ctx, &bedrockruntime.InvokeModelWithResponseStreamInput{
			ModelId: aws.String(bedrockModel), Body: claudeBody(prompt, most), ContentType: aws.String("application/json"),
		})
		if err != nil {
			return err
		}
		told := false
		for event := range answer.GetStream().Events() {
			chunk, ok := event.(*types.ResponseStreamMemberChunk)
			told = told || ok && strings.Contains(string(chunk.Value.Bytes), "invocationMetrics")
		}
		return ended(answer.GetStream(), told)
	})},
	{"anthropic", false, anthropicBedrock(func(ctx context.Context, c *anthropic.Client, prompt string, most int64) error {
		params := messageParams(prompt, most)
		params.Model = bedrockModel
		_, err := c.Messages.New(ctx, params)
		return err
	})},
	{"anthropic, streamed", true, anthropicBedrock(func(ctx context.Context, c *anthropic.Client, prompt string, most int64) error {
		params := messageParams(prompt, most)
		params.Model = bedrockModel
		stream := c.Messages.NewStreaming(ctx, params)
		told := false
		for stream.Next() {
			told = told || stream.Current().Usage.OutputTokens != 0
		}
		return ended(stream, told)
	})},
}

// bedrockLimiter returns a limiter with a quota of requests for the model.
func bedrockLimiter(t *testing.T, perMinute int) *ratelimit.RateLimiter {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{bedrockModel: {MaxRPM: perMinute, MaxTPM: 10_000_000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// bedrockRun makes calls at once, and returns their errors.
func bedrockRun(t *testing.T, fake *bedrockFake, client func(*http.Client) call, calls int, wrap func(http.RoundTripper) http.RoundTripper) []error {
	network := fakeprovider.NewNetwork()
	stop := network.Serve(fake)
	base := network.Transport()
	call := client(&http.Client{Transport: wrap(base)})
	errs := make([]error, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() { errs[i] = call(t.Context(), prompt(i), maxTokens) })
	}
	all.Wait()
	base.CloseIdleConnections()
	time.Sleep(time.Second) // until the server has seen that
	stop()
	fake.mu.Lock() // what its handlers wrote is to be seen
	defer fake.mu.Unlock()
	return errs
}

// inBubbles runs a test for each way to call Bedrock.
func inBubbles(t *testing.T, test func(t *testing.T, streams bool, client func(*http.Client) call)) {
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "")
	for _, c := range bedrockCalls {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, c.streams, c.client) })
		})
	}
}

// Under the real SDKs, no call comes over the quota or with a signature that is wrong or too old,
// none fails, and each token is booked.
func TestBedrock(t *testing.T) {
	inBubbles(t, func(t *testing.T, _ bool, client func(*http.Client) call) {
		const perMinute, calls = 10, 35
		rl, fake, b := bedrockLimiter(t, perMinute), &bedrockFake{perMinute: perMinute}, newBooks()
		defer rl.Close()
		began := time.Now()
		for i, err := range bedrockRun(t, fake, client, calls, func(base http.RoundTripper) http.RoundTripper {
			return &llmhttp.Transport{Base: base, Limiter: rl, OnEvent: b.event}
		}) {
			if err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
		b.end()
		if took := time.Since(began); took < 3*time.Minute || took > 3*time.Minute+10*time.Second {
			t.Errorf("took %v", took)
		}
		if fake.requests != calls || fake.refused != 0 || len(fake.faults) != 0 {
			t.Errorf("%d requests, %d over the limit, faults %q", fake.requests, fake.refused, fake.faults)
		}
		if b.sources[llmhttp.SourceReported] != calls || b.settled.PromptTokens != fake.in || b.settled.OutputTokens != 5*fake.out || b.reported.Output != fake.out {
			t.Errorf("booked %+v of %+v by %v; Bedrock counted %d and %d", b.settled, b.reported, b.sources, fake.in, fake.out)
		}
		if s := rl.Stats(bedrockModel); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("left: %+v", s)
		}
	})
}

// A call whose signature would be too old is refused at once; the SDK does not try again, and its
// error says why. Without the bound Bedrock would refuse the signature.
func TestBedrockSignatureAge(t *testing.T) {
	inBubbles(t, func(t *testing.T, _ bool, client func(*http.Client) call) {
		const perMinute, calls = 10, 60
		rl, fake, b := bedrockLimiter(t, perMinute), &bedrockFake{perMinute: perMinute}, newBooks()
		defer rl.Close()
		told := 0
		for _, err := range bedrockRun(t, fake, client, calls, func(base http.RoundTripper) http.RoundTripper {
			return &llmhttp.Transport{Base: base, Limiter: rl, OnEvent: b.event}
		}) {
			if err == nil {
				continue
			}
			p, ok := llmhttp.FromError(fmt.Errorf("ask: %w", err))
			if !ok || !errors.Is(p, llmhttp.ErrNotSent) || !errors.Is(p, llmhttp.ErrSignatureAge) || p.Model != bedrockModel || p.RetryAfter <= 0 {
				t.Fatalf("found %v in %T %v", p, err, err)
			}
			told++
		}
		b.end()
		if told == 0 || fake.requests != calls-told || fake.refused != 0 || len(fake.faults) != 0 || b.events[llmhttp.EventRefused] != told {
			t.Errorf("%d refused of %d, told %v; %d requests, %d over the limit, faults %q", told, calls, b.events, fake.requests, fake.refused, fake.faults)
		}
	})
	inBubbles(t, func(t *testing.T, _ bool, client func(*http.Client) call) {
		fake := &bedrockFake{perMinute: 100}
		errs := bedrockRun(t, fake, client, 1, func(base http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				time.Sleep(5*time.Minute + 2*time.Second)
				return base.RoundTrip(req)
			})
		})
		if errs[0] == nil || len(fake.faults) == 0 || !strings.Contains(fake.faults[0], "Signature expired") {
			t.Errorf("the fake takes old signatures: %v, %q", errs[0], fake.faults)
		}
	})
}

// A throttled call is told as such, by its error and by the limiter, also inside an answer with
// status 200.
func TestBedrockThrottled(t *testing.T) {
	inBubbles(t, func(t *testing.T, streams bool, client func(*http.Client) call) {
		for _, inStream := range []bool{false, streams} {
			rl, fake := bedrockLimiter(t, 1000), &bedrockFake{inStream: inStream}
			var mu sync.Mutex // events come on goroutines of the SDK
			var problems []*llmhttp.Problem
			errs := bedrockRun(t, fake, client, 1, func(base http.RoundTripper) http.RoundTripper {
				return &llmhttp.Transport{Base: base, Limiter: rl, OnEvent: func(e llmhttp.Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == llmhttp.EventProblem {
						problems = append(problems, e.Problem)
					}
				}}
			})
			mu.Lock()
			p, ok := llmhttp.FromError(errs[0])
			if !ok || !errors.Is(p, llmhttp.ErrRateLimited) || !strings.EqualFold(p.Code, "ThrottlingException") {
				t.Errorf("in a stream %t: found %v in %T %v", inStream, p, errs[0], errs[0])
			}
			if len(problems) != fake.requests || problems[0].Kind != llmhttp.RateLimited {
				t.Errorf("in a stream %t: %d requests, told %v", inStream, fake.requests, problems)
			}
			if s := rl.Stats(bedrockModel); s.TPM != 0 || s.RPM != fake.requests {
				t.Errorf("in a stream %t: charged %+v", inStream, s)
			}
			mu.Unlock()
			rl.Close()
		}
	})
}
