// Package llmhttp keeps the calls of any LLM SDK inside the provider's quotas. It is an
// [http.RoundTripper]: give the SDK an [http.Client] with a [Transport], and nothing else
// changes.
//
//	rl, err := ratelimit.NewWithConfig(ratelimit.Config{ … })
//	client := openai.NewClient(option.WithHTTPClient(llmhttp.NewClient(rl)))
//
// Each call waits until the limiter has room for it, is charged by an estimate, and then by
// what the answer says was used, also while it streams. What the provider says of
// its limits, in headers and refusals, steers the limiter: see
// [ratelimit.RateLimiter.Observe] and [ratelimit.RateLimiter.Cooldown].
//
// It knows calls by their method, path and body, whatever the host: OpenAI's chat
// completions, responses, completions and embeddings, at OpenAI, Azure and all that
// speak its API; Anthropic's messages; Gemini's generateContent, streamGenerateContent
// and embedContent; Ollama's chat and generate. See [Adapter] for others. All other
// requests pass through as they are.
package llmhttp

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// Transport is an [http.RoundTripper] that sends calls to models when a limiter has room
// for them. Only Limiter must be set. It is safe for concurrent use; its fields must not
// be changed once it is used, and it must not be copied.
type Transport struct {
	// Base sends the requests. Nil is a copy of http.DefaultTransport that waits ten
	// minutes at most for the headers of an answer.
	Base http.RoundTripper

	// Limiter says when there is room. It must be set: without it every call fails.
	Limiter *ratelimit.RateLimiter

	// Estimate returns what a call will count as, before it is sent. Nil is a rule:
	//
	// The prompt is a token for four bytes of all strings and keys in the body, and a
	// thousand for each image, sound or file. Of a body over MaxBody it is a token for four
	// bytes of it. The output is a quarter more than the most that the model wrote in its
	// last 32 to 64 answers, 1,000 tokens before the first, and no more than the request
	// allows.
	//
	// Then the provider's rule: at OpenAI's API both together are at least the max_tokens of
	// the request, and for embeddings and at Gemini's the output is zero. An estimate that is
	// larger than the quota itself is taken for the quota.
	//
	// What Estimate returns is taken as it is: a call that can never fit is refused.
	Estimate func(*Call) (promptTokens, outputTokens int)

	// Model returns the name under which a call is counted; empty lets it pass
	// uncounted. Nil is the model that the request names; at Azure, the deployment.
	Model func(*Call) string

	// MaxWait is how long a call may wait for room; longer is refused, at once where that
	// can be told. Zero or less is as long as the request's context allows.
	MaxWait time.Duration

	// Retry sends calls again that the provider refused for a while. The zero value is
	// off: SDKs do that by themselves, and each try comes through here.
	Retry Retry

	// OnEvent is called when something happens to a call, on the goroutine that it happens
	// on, without locks. It must be quick. Nil is for programs that do not want to know.
	OnEvent func(Event)

	// RefuseWithError returns a *ratelimit.LimitError for a call that is refused, which
	// errors.As finds in the SDK's error. SDKs try again when there is an error: turn that
	// off, or each call is refused three times, and with a deadline the SDK may return that
	// of the context alone. False, the default, answers with a response of status 429 in
	// the provider's form that says not to try again (x-should-retry), and is NotSent to
	// [Classify].
	RefuseWithError bool

	// AddStreamUsage asks for the usage of OpenAI's completions that are streamed
	// (stream_options.include_usage), where the caller did not, and takes the chunk that
	// tells it out of the stream. Without it such a stream is counted by the text in it.
	// Servers that do not know the option may refuse it.
	AddStreamUsage bool

	// NoRefund is for providers that charge the larger of max_tokens and the prompt when a
	// call arrives, and give nothing back when its answer is shorter: then it counts as
	// that much here, too. OpenAI and Azure do so, and at their hosts it is always on.
	NoRefund bool

	// Margin is how much later than it was written a request may come to the provider's count. The
	// charge is dated that much later, or to the headers of the answer if they come
	// sooner. Zero, the default, is 250 ms; a negative one is none. Config.Margin of the limiter is not
	// needed beside it.
	Margin time.Duration

	// MaxBody is how many bytes of a request's body are read to find out what it asks for. Of a
	// larger one the estimate comes from its size, and the model must be named in what was read. A
	// body without GetBody is held in memory up to this size. Zero or less is 16 MiB.
	MaxBody int64

	// MaxIdle is after how long without a Read an answer's body that was never closed
	// is settled. Zero or less is ten minutes.
	MaxIdle time.Duration

	// AllowRedirects follows redirects to another scheme, host or port. False, the default,
	// refuses them with a *RedirectError, because SDKs send the key and the prompt along.
	AllowRedirects bool

	// Adapters know more APIs. They are asked before the built-in ones.
	Adapters []Adapter

	models    models
	anomalies atomic.Int64
	setUp     sync.Once
	base      http.RoundTripper
	arrivals  alarm // for calls without an answer: date the charge
	idles     alarm // for answers: look whether they are read
}

// NewClient returns a client whose calls keep to the quotas of rl. It is
// &http.Client{Transport: &Transport{Limiter: rl}}.
func NewClient(rl *ratelimit.RateLimiter) *http.Client {
	return &http.Client{Transport: &Transport{Limiter: rl}}
}

const (
	defaultMargin  = 250 * time.Millisecond
	defaultMaxIdle = 10 * time.Minute
	// headerTimeout is that of the SDKs' own clients.
	headerTimeout = 10 * time.Minute
)

func (t *Transport) margin() time.Duration {
	if t.Margin == 0 {
		return defaultMargin
	}
	return max(t.Margin, 0)
}

func (t *Transport) maxBody() int64 {
	if t.MaxBody <= 0 {
		return defaultMaxBody
	}
	return t.MaxBody
}

func (t *Transport) maxIdle() time.Duration {
	if t.MaxIdle <= 0 {
		return defaultMaxIdle
	}
	return t.MaxIdle
}

func (t *Transport) roundTripper() http.RoundTripper {
	t.setUp.Do(func() {
		t.arrivals.after, t.arrivals.ring = t.margin(), (*flight).date
		t.idles.after, t.idles.ring = t.maxIdle(), (*flight).look
		t.base = t.Base
		if t.base != nil {
			return
		}
		t.base = http.DefaultTransport
		if shared, ok := http.DefaultTransport.(*http.Transport); ok {
			own := shared.Clone()
			own.ResponseHeaderTimeout = headerTimeout
			t.base = own
		}
	})
	return t.base
}

// CloseIdleConnections closes the connections of Base that nobody uses.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.roundTripper().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Anomalies is how often an answer told a usage that cannot be: negative, not whole, or
// out of all proportion. The estimate stands then. It is safe for concurrent use.
func (t *Transport) Anomalies() int64 { return t.anomalies.Load() }

// RoundTrip waits until there is room for the call, sends it, and settles it by what the
// answer's body says when that was read, closed, or given up. A request that is no call
// to a model goes to Base as it is.
//
// It returns the response and the errors of Base as they are; of a response of status 400
// or more the body is read before, if it has at most 64 KiB. Its own errors wrap that of
// the request's context, when that ended while the call waited; are a
// *ratelimit.LimitError, with RefuseWithError; are a *[RedirectError]; or wrap
// ratelimit.ErrClosed, where the call would have had to wait, or
// ratelimit.ErrInvalidTokens. The request's body is closed on every path. It is safe for
// concurrent use.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Limiter == nil {
		closeBody(req)
		return nil, errors.New("llmhttp: Transport.Limiter is nil")
	}
	if req.URL == nil {
		return t.pass(req) // which tells what is wrong
	}
	if !t.AllowRedirects {
		if err := foreignRedirect(req); err != nil {
			closeBody(req)
			return nil, err
		}
	}
	call := new(Call)
	a := t.recognize(req, call)
	if a == nil || call.Free {
		return t.pass(req)
	}
	send, err := t.inspect(call, a)
	if err != nil {
		return nil, err
	}
	name := call.Model
	if t.Model != nil {
		name = modelName(t.Model(call))
	}
	if name == "" {
		return t.pass(send)
	}
	return t.send(send, call, name, a)
}

// pass sends a request that is not limited.
func (t *Transport) pass(req *http.Request) (*http.Response, error) {
	resp, err := t.roundTripper().RoundTrip(req)
	if resp != nil && resp.Request == nil {
		resp.Request = req // by which redirects are judged
	}
	return resp, err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// send sends a call, more than once with Retry. It closes the body of send.
func (t *Transport) send(send *http.Request, call *Call, name string, a Adapter) (*http.Response, error) {
	hides := false
	if t.AddStreamUsage && (call.Operation == chatCompletions || call.Operation == completions) && call.Stream && !call.StreamUsage && !call.Partial {
		if asking, ok := askUsage(send); ok {
			send, hides = asking, true
		}
	}
	f := &flight{transport: t, adapter: a, call: call, name: name, model: t.models.get(name), hides: hides}
	if err := t.admit(f); err != nil {
		closeBody(send)
		return t.refuse(f, err)
	}
	for {
		resp, err := f.roundTrip(send)
		if f, send = t.retry(f, send, resp, err); f == nil {
			return resp, err
		}
	}
}
