package sdktest

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // genai logs streams that fail
	os.Exit(m.Run())
}

// status returns the status that an SDK's error has, or 0.
func status(err error) int {
	var o *openai.Error
	var a *anthropic.Error
	var g genai.APIError
	switch {
	case errors.As(err, &o):
		return o.StatusCode
	case errors.As(err, &a):
		return a.StatusCode
	case errors.As(err, &g):
		return g.Code
	}
	return 0
}

// A call that may not wait for as long as it would take is refused at once: as the SDK's own
// error of status 429, which it does not try again, or as one that errors.As finds.
func TestTransportRefuses(t *testing.T) {
	for i := range apis {
		for _, asError := range []bool{false, true} {
			s := scenario{api: &apis[i], length: time.Millisecond, retries: !asError && apis[i].provider != "gemini"} // genai repeats every 429
			name := s.api.name
			if asError {
				name += ", as an error"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rl := s.limiter(t)
					defer rl.Close()
					rl.SetQuota(model, ratelimit.ModelQuota{MaxRPM: 1})
					b := newBooks()
					fake, network := s.provider(), fakeprovider.NewNetwork()
					defer network.Serve(fake)()
					base := network.Transport()
					defer base.CloseIdleConnections()
					call, err := s.api.client(&http.Client{Transport: &llmhttp.Transport{
						Base: base, Limiter: rl, OnEvent: b.event, MaxWait: 30 * time.Second, RefuseWithError: asError,
					}}, "http://provider.test", s.retries)
					if err != nil {
						t.Fatal(err)
					}
					if err := call(context.Background(), prompt(0), maxTokens); err != nil {
						t.Fatal(err)
					}
					start := time.Now()
					err = call(context.Background(), prompt(1), maxTokens)
					var limit *ratelimit.LimitError
					if is := errors.As(err, &limit); is != asError || !asError && status(err) != http.StatusTooManyRequests {
						t.Errorf("%T: %v", err, err)
					}
					if took := time.Since(start); took != 0 || b.events[llmhttp.EventRefused] != 1 {
						t.Errorf("refused %d times in %v", b.events[llmhttp.EventRefused], took)
					}
					if got := fake.Stats(model); got.Requests != 1 {
						t.Errorf("%d requests", got.Requests)
					}
				})
			})
		}
	}
}

// A stream that is not asked for its usage can be asked for it by the transport, which hides
// that from the SDK, or is counted by its text.
func TestTransportStreamUsage(t *testing.T) {
	plain := api{"OpenAI chat, streamed without usage", "openai", false, openAI(func(ctx context.Context, c *openai.Client, prompt string, most int64) error {
		stream := c.Chat.Completions.NewStreaming(ctx, chatParams(prompt, most))
		told, text := false, ""
		for stream.Next() {
			chunk := stream.Current()
			told = told || chunk.Usage.TotalTokens != 0 || len(chunk.Choices) == 0
			for _, c := range chunk.Choices {
				text += c.Delta.Content
			}
		}
		if told || text == "" {
			return errors.New("read a stream: what was not asked for, or no text")
		}
		return ended(stream, true)
	})}
	for _, add := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := scenario{api: &plain, jitter: 50 * time.Millisecond, length: time.Second, calls: 3 * perWindow}
			rl := s.limiter(t)
			defer rl.Close()
			b := newBooks()
			r := s.run(t, func(base http.RoundTripper) http.RoundTripper {
				return &llmhttp.Transport{Base: base, Limiter: rl, OnEvent: b.event, AddStreamUsage: add}
			})
			b.end()
			if add {
				s.verify(t, rl, b, r)
				return
			}
			if r.failed != 0 || r.stats.Refused != 0 || b.sources[llmhttp.SourceText] != s.calls {
				t.Errorf("%v, %v: %v", r, r.err, b.sources)
			}
			// The text is what was written but for the thoughts, in four characters a token.
			text := r.stats.Used.Output - r.stats.Used.Thoughts
			if got := b.settled.OutputTokens; got < text || got > text*11/10 {
				t.Errorf("booked %d tokens of output for texts of %d", got, text)
			}
		})
	}
}
