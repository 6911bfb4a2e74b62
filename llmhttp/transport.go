// Package llmhttp keeps the calls of any LLM SDK inside the provider's quotas. It is an
// [http.RoundTripper]: give the SDK an [http.Client] with a [Transport], and nothing else
// changes.
//
//	rl, err := ratelimit.NewWithConfig(ratelimit.Config{ … })
//	client := openai.NewClient(option.WithHTTPClient(llmhttp.NewClient(rl)))
//
// Each call waits until the limiter has room for it. It is charged an estimate, and then the usage
// that the answer reports, also while the answer streams. The limits that the provider reports in
// headers and refusals steer the limiter: see [ratelimit.RateLimiter.Observe] and
// [ratelimit.RateLimiter.Cooldown].
//
// A provider's refusal pauses its model: as long as the provider says, two minutes at most, or else
// one second, then two, up to a minute until a call succeeds. For a daily quota, pauses last until
// the day ends.
//
// Where a provider does not say what it allows, the limiter can find it: see
// [ratelimit.ModelQuota.AdaptiveFloorRPM]. A 429 for the caller's quota then lowers the
// rate. Overload lowers the calls in flight. So do the third and each further failure in a row, and
// a call whose time ran out, if the provider held it at least as long as our line did and longer
// than the model's slowest answers. The lowered limit takes the place of the pause, unless the
// provider says how long to wait, or is overloaded for ten seconds without an answer.
//
// A Transport recognizes calls by their method, path and body, whatever the host: OpenAI's chat
// completions, responses, completions and embeddings, at OpenAI, Azure and all servers that speak
// its API; Anthropic's messages; Gemini's generateContent, streamGenerateContent, embedContent and
// interactions; models and endpoints on Vertex AI; Amazon Bedrock's Converse and InvokeModel, and
// their streams; Cohere's chat, embed and rerank; Mistral's agents, conversations and fim; Ollama's
// chat, generate and embed. OpenAI's images, audio, videos and moderations count as requests, with
// the tokens that their answers report. An [Adapter] adds another API. All other requests pass
// through unchanged. If one is a model call that nothing counts, the limiter's Config.Events
// and Config.OnError get an *[UncountedError]; ratelimit.UnknownDeny then stops it. PATHS.md lists
// the paths that are known.
//
// A request that is signed by AWS (SigV4) waits for at most four minutes: see [ErrSignatureAge].
package llmhttp

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// Transport is an [http.RoundTripper] that sends calls to models when a limiter has room for
// them. Only Limiter must be set. It is safe for concurrent use. Its fields must not be changed
// after the first use, and it must not be copied.
type Transport struct {
	// Base sends the requests. Nil means a copy of http.DefaultTransport that waits at most ten
	// minutes for the headers of an answer.
	Base http.RoundTripper

	// Limiter decides when there is room. It is required: without it every call fails.
	Limiter *ratelimit.RateLimiter

	// Estimate returns the expected usage of a call before it is sent. Nil means this rule:
	//
	// The prompt is one token for four bytes of all strings and keys in the JSON body, and a
	// thousand tokens for each image, sound or file. For a body that was read only up to MaxBody
	// it is one token for four bytes of the body. The output is a quarter more than the most that
	// the model wrote in its last 32 to 64 answers, FirstOutput before the first, and no more than
	// the request allows.
	//
	// The estimate of text is corrected by the model's earlier answers: see
	// ratelimit.RateLimiter.Estimate, which also tells its error. Where a provider is known to
	// charge by an estimate of its own (NoRefund), the correction does not lower it. Where the
	// head of an image or sound in the body tells its size, the provider's rule takes the place
	// of the thousand tokens: OpenAI's tiles, Anthropic's width times height by 750, Gemini's 258
	// for a tile and 32 for a second of WAV.
	//
	// Then the provider's rule applies: with OpenAI's API both together are at least the
	// max_tokens of the request; for embeddings and with Gemini's API the output is zero. An
	// estimate larger than the quota is cut to the quota.
	//
	// The result of Estimate is not cut: a call that exceeds the quota is refused with a
	// *ratelimit.LimitError that matches ratelimit.ErrNeverFits (not limit.ErrNeverFits, which
	// belongs to the limiters of package limit).
	Estimate func(*Call) (promptTokens, outputTokens int)

	// Model returns the name under which a call is counted; an empty name passes the call
	// uncounted. That is told of a call that names no model itself. Nil means the model that the
	// request names; at Azure, the deployment.
	Model func(*Call) string

	// FirstOutput is the expected output, in tokens, of a model of which the limiter has seen no
	// answer yet. Zero or less means 256. It counts as no more than the request allows.
	FirstOutput int

	// CountAbove is the estimated size of a prompt, in tokens, above which the provider counts
	// it before the call is admitted, once for each call: by the count endpoint at the same
	// host, over Base and with the headers of the call, in at most ten seconds that MaxWait does
	// not include. That is for OpenAI's responses and chat completions, Anthropic's messages and
	// Gemini's generateContent with bodies up to MaxBody. Others, and counts that fail, keep the
	// estimate, and so does a call with an Estimate of its own. Zero or less means never.
	CountAbove int

	// MaxWait bounds the time that a call waits for room. A call that could not be admitted in
	// that time, even if all open calls gave all of their charges back, is refused at once; any
	// other waits until then. A refusal is a *ratelimit.LimitError that matches
	// ratelimit.ErrMaxWait; where the deadline of the request's context comes first, it matches
	// context.DeadlineExceeded. Zero or less means as long as the context allows. [WithMaxWait]
	// sets another bound for one call.
	MaxWait time.Duration

	// Retry sends calls again that the provider refused for a while. The zero value is off: SDKs
	// retry by themselves, and each of their tries passes through the Transport.
	Retry Retry

	// OnEvent is called for each event of a call, on the goroutine that causes it and without
	// locks held. It must return quickly. A panic ends the call and goes on to the caller; what
	// was not sent is given back, what was sent stays charged. On a goroutine of a WebSocket, which
	// has no caller, a panic ends the connection, and its Read returns it. Nil discards events. The
	// handler in Config.Events of Limiter is told of the same calls: what they take of the quota,
	// how long they wait for it, and what the provider refuses.
	OnEvent func(Event)

	// RefuseWithError returns a *ratelimit.LimitError for a refused call, which errors.As finds in
	// the SDK's error. SDKs retry after an error: turn that off, or each call is refused three
	// times, and with a deadline the SDK may return the context's error alone. False, the
	// default, answers with a response of status 429 in the provider's format that says not to
	// retry (x-should-retry). [FromError] finds either in the SDK's error; [Classify] reports the
	// response as NotSent.
	RefuseWithError bool

	// AddStreamUsage asks for the usage of OpenAI's streamed completions
	// (stream_options.include_usage) where the caller did not, and removes the chunk that reports
	// it from the stream. Without it, such a stream is counted by the text in it. Servers that do
	// not know the option may refuse it.
	AddStreamUsage bool

	// NoRefund is for providers that charge the larger of max_tokens and the prompt when a call
	// arrives, and refund nothing for a shorter answer: the call then counts as much here, too.
	// OpenAI and Azure do so, and at their hosts it is always on.
	NoRefund bool

	// Margin is the longest time from the writing of a request to the moment at which the
	// provider counts it. The charge is dated that much later, or to the headers of the answer if
	// they come sooner. Zero, the default, means 250 ms; a negative one means none. Config.Margin
	// of the limiter is then not needed, and adds to it. With Config.Shared set it all the same:
	// the calls of a process that is killed stay dated at their admission, and it covers them.
	Margin time.Duration

	// MaxBody bounds how many bytes of a request's body are read before it is sent. Only JSON
	// bodies are read, also compressed with gzip or deflate: those with a JSON Content-Type, and
	// others but for multipart, images, sounds and videos that begin with { or [. The estimate for
	// a larger body comes from its size. Where the part that was read names no model, the whole
	// body is read, if there is GetBody, and nothing of it is kept; else the call is told as
	// uncounted. Of a body without GetBody, the part that was read is held in memory. Reading ends
	// with the context of the request. Zero or less means 16 MiB.
	MaxBody int64

	// MaxIdle is the time without a Read after which an answer whose body was not closed is
	// settled. Zero or less means ten minutes.
	MaxIdle time.Duration

	// AllowRedirects follows redirects to another scheme, host or port. False, the default,
	// refuses them with a *RedirectError, because SDKs send the key and the prompt along.
	AllowRedirects bool

	// NoWebSocket refuses to open WebSockets to models: the answer has status 426, and nothing is
	// sent. Some clients of OpenAI's Responses API then use HTTP. False, the default, limits each
	// response.create of its WebSocket mode like a call of its own: the fields of Transport apply
	// to it, but for RefuseWithError, Retry, CountAbove and AddStreamUsage. A refused one is
	// answered with an error event. MaxBody also bounds a message, and the messages that wait.
	NoWebSocket bool

	// Adapters add APIs. They are asked before the built-in ones.
	Adapters []Adapter

	// Free are paths of requests that are not counted on purpose, such as "/v1/rerank": they pass
	// in silence, also where an adapter would count them. A path stands for all that end in it, by
	// whole segments. In it, * and {name} stand for one segment, {name} also for a part of one, and
	// {name...} at its end for one or more. What comes before the first slash is the end of a host,
	// as in "example.com/v1/score". An entry with a method, a scheme or a query fails every call.
	Free []string

	models    models
	anomalies atomic.Int64
	setUp     sync.Once
	base      http.RoundTripper
	free      []pathPattern // Free
	badFree   error         // what is wrong with Free
	arrivals  timeouts      // of calls without an answer: date the charge
	idles     timeouts      // of answers: check whether they are still read
}

// NewClient returns a client whose calls stay within the quotas of rl. It is
// &http.Client{Transport: &Transport{Limiter: rl}}.
func NewClient(rl *ratelimit.RateLimiter) *http.Client {
	return &http.Client{Transport: &Transport{Limiter: rl}}
}

const (
	defaultMargin  = 250 * time.Millisecond
	defaultMaxIdle = 10 * time.Minute
	defaultMaxBody = 16 << 20
	// headerTimeout bounds the wait for an answer's headers, as the SDKs' own clients do.
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

// roundTripper returns Base or its default, and sets the Transport up.
func (t *Transport) roundTripper() http.RoundTripper {
	t.setUp.Do(func() {
		t.arrivals.after, t.arrivals.fire = t.margin(), (*flight).dateCharge
		t.idles.after, t.idles.fire = t.maxIdle(), (*flight).checkIdle
		t.free, t.badFree = patternsOf(t.Free)
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

// CloseIdleConnections closes the idle connections of Base, if Base can do that.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.roundTripper().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Anomalies returns the number of invalid counts in answers: negative, fractional, or too large to
// be true. The charge of such an answer stays at the estimate. It is safe for concurrent use.
func (t *Transport) Anomalies() int64 { return t.anomalies.Load() }

// RoundTrip waits until there is room for the call, sends it, and settles it by the usage in the
// answer's body once that was read, closed, or abandoned. A request that is no call to a model goes
// to Base unchanged.
//
// It returns the response and the errors of Base unchanged; the body of a response with status 400
// or more is read first if it has at most 64 KiB. Its own errors are a *[RedirectError]; with
// RefuseWithError a *ratelimit.LimitError, which matches ratelimit.ErrNeverFits if the call can
// never fit, ratelimit.ErrMaxWait if MaxWait refused it, and ErrSignatureAge if its signature would
// have been too old; or they wrap the error of the request's context, if that ended while the call
// waited or its body was read, ratelimit.ErrClosed, if the limiter was closed and the call would
// have had to wait, or ratelimit.ErrInvalidTokens. The request's body is closed on every path. It
// is safe for concurrent use.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.roundTrip(req, nil)
}

// roundTrip is RoundTrip for a request that goes a way; nil for one that is not routed.
func (t *Transport) roundTrip(req *http.Request, w *way) (*http.Response, error) {
	if t.Limiter == nil {
		closeBody(req)
		return nil, errors.New("llmhttp: Transport.Limiter is nil")
	}
	if req.URL == nil {
		return t.pass(req, nil) // Base returns the error
	}
	if !t.AllowRedirects && w == nil {
		if err := foreignRedirect(req); err != nil {
			closeBody(req)
			return nil, err
		}
	}
	t.roundTripper() // which sets the Transport up
	if t.badFree != nil {
		closeBody(req)
		return nil, t.badFree
	}
	call := calls.Get().(*Call)
	a, builtIn := t.recognize(req, call)
	switch {
	case a != nil && call.Free, len(t.Free) > 0 && t.isFree(req):
		return t.passUnread(req, call, w)
	case a == nil && opensResponses(req):
		return t.openSocket(req, w)
	case a == nil:
		return t.unrecognized(req, call, w)
	}
	send, err := t.inspect(call, a, builtIn)
	if err != nil {
		return nil, err
	}
	name := t.nameOf(call)
	switch {
	case name != "":
		return t.send(send, call, name, a, w)
	case call.Model != "", // the program does not count it
		call.stores && !call.invalid && !call.Partial:
		return t.pass(send, w)
	}
	return t.passUncounted(send, call, a, whyNoModel(call), w)
}

// calls are what requests that are passed on have used.
var calls = sync.Pool{New: func() any { return new(Call) }}

// isFree reports whether the program does not count the requests to a path.
func (t *Transport) isFree(req *http.Request) bool {
	path := strings.TrimRight(req.URL.Path, "/")
	for i := range t.free {
		if _, ok := t.free[i].match(req.URL.Hostname(), path); ok {
			return true
		}
	}
	return false
}

// nameOf returns the name under which a call is counted; empty for one that is not.
func (t *Transport) nameOf(call *Call) string {
	if call.Model == "" && !call.Partial { // else it may be in the part that was not read
		call.Model = call.meant
	}
	call.Model = modelName(call.Model)
	if t.Model != nil {
		return modelName(t.Model(call))
	}
	return call.Model
}

// pass sends a request that is not limited.
func (t *Transport) pass(req *http.Request, w *way) (*http.Response, error) {
	if w != nil {
		return w.pass(req)
	}
	resp, err := t.roundTripper().RoundTrip(req)
	if resp != nil && resp.Request == nil {
		resp.Request = req // which foreignRedirect needs
	}
	return resp, err
}

// closeBody closes the body of a request that is not sent.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// closeAnswer closes the body of an answer, if there is one, that nobody gets.
func closeAnswer(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
}
