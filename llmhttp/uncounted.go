package llmhttp

import (
	"fmt"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
)

// UncountedError tells Config.OnError of the limiter, once for each path, that a call to a model
// was not counted; Config.Events gets it with each such call, in an EventUncounted. With
// ratelimit.UnknownDeny the call was refused instead, and the refusal matches the error. A call
// whose answer could not be read was sent, and is charged all the output that its request allows.
type UncountedError struct {
	// Path is the path of the request, without its query; of more than 100 paths "others".
	Path string
	// Model is the model that the request names; empty where none was found.
	Model string
	// Reason is why nothing counts the call, in words.
	Reason string
}

// Error names the path, the model and the reason.
func (e *UncountedError) Error() string {
	of := ""
	if e.Model != "" {
		of = fmt.Sprintf(" of the model %q", e.Model)
	}
	what := "is not counted"
	if e.Reason == unreadableAnswer {
		what = "was not counted by its usage"
	}
	return fmt.Sprintf("llmhttp: the call to %q%s %s: %s", e.Path, of, what, e.Reason)
}

// The reasons of an UncountedError.
const (
	unknownPath    = "no adapter knows the path"
	unmeasuredPath = "its usage cannot be counted here"
	noModel        = "it names no model"
	modelTooLate   = "it names no model in the first MaxBody bytes, and cannot be read twice"
	unreadableBody = "its Content-Encoding cannot be read"

	unreadableAnswer = "its answer cannot be read, so it is charged all the output that the request allows"
)

// tellUncounted tells the limiter of a call that nothing counts. It returns the refusal of a call
// that must not be sent.
func (t *Transport) tellUncounted(req *http.Request, model, reason string) error {
	return t.Limiter.ObserveUncounted(req.Context(), req.URL.Path, model, func(path, model string) error {
		return &UncountedError{Path: path, Model: model, Reason: reason}
	})
}

// passUncounted tells of a call that nothing counts, and sends it, or refuses it. a is the adapter
// that recognized it; nil for none. It closes the body of send.
func (t *Transport) passUncounted(send *http.Request, call *Call, a Adapter, reason string, w *way) (*http.Response, error) {
	err := t.tellUncounted(call.Request, call.Model, reason)
	if err == nil {
		return t.pass(send, w)
	}
	closeBody(send)
	if a == nil {
		a = likelyAdapter(call.Request)
	}
	f := &flight{transport: t, adapter: a, call: call, countedAs: modelName(call.Model)}
	f.ctx.Context, f.ctx.ID = call.Request.Context(), notice.NextCallID()
	return t.refuse(f, err)
}

// whyNoModel returns why a call that an adapter recognized has no model.
func whyNoModel(call *Call) string {
	switch {
	case decoderOf(call.Request.Header) == nil:
		return unreadableBody
	case call.Partial:
		return modelTooLate
	}
	return noModel
}

// unrecognized sends a request that no adapter recognized. If it is a call to a model all the same,
// that is told. It closes the body.
func (t *Transport) unrecognized(req *http.Request, call *Call, w *way) (*http.Response, error) {
	post := req.Method == http.MethodPost
	if !post && !isSocketUpgrade(req) {
		return t.passUnread(req, call, w)
	}
	method := req.Method
	if !post {
		method = http.MethodGet // that of an upgrade, also over HTTP/2
	}
	known, model := uncountedPaths().find(method, req.URL.Hostname(), req.URL.Path)
	if known != nil && known.fate == freeFate || known == nil && !post {
		return t.passUnread(req, call, w)
	}
	if !post && t.NoWebSocket {
		closeBody(req)
		return socketRefusal(req), nil
	}
	send, err := req, error(nil)
	switch {
	case model != "":
	case !post:
		model = req.URL.Query().Get("model")
	default:
		if model = modelInPath(req.URL.Path); model == "" {
			if send, model, err = t.probe(call); err != nil {
				return nil, err
			}
		}
	}
	reason := unmeasuredPath
	if known == nil {
		if reason = unknownPath; model == "" {
			return t.passUnread(send, call, w)
		}
	}
	call.Adapter, call.Operation, call.Model = "", "", model
	return t.passUncounted(send, call, nil, reason, w)
}

// passUnread sends a request that is not limited, and has no use for call any more.
func (t *Transport) passUnread(send *http.Request, call *Call, w *way) (*http.Response, error) {
	*call = Call{}
	calls.Put(call)
	return t.pass(send, w)
}

// maxProbe bounds the bytes that are read of a request that no adapter recognized, to find a model.
const maxProbe = 1 << 20

// probe returns the model that the beginning of a JSON body names, and the request to send. With an
// error, the body is closed.
func (t *Transport) probe(call *Call) (send *http.Request, model string, err error) {
	req := call.Request
	form, decode := requestForm(req.Header), decoderOf(req.Header)
	if req.Body == nil || req.Body == http.NoBody || form >= typedBody || decode == nil {
		return req, "", nil
	}
	in := inspection{call: call, max: min(maxProbe, t.maxBody()), sniffing: true}
	in.scanner = jsonscan.New(in.value)
	defer in.scanner.Release()
	if send, err = in.read(req, decode); err != nil {
		return nil, "", fmt.Errorf("llmhttp: read request body: %w", err)
	}
	return send, in.names.any(), nil
}

// any returns a model that the body names, by whichever key.
func (n *names) any() string {
	for _, name := range [...]string{n.model, n.other(), n.id} {
		if name != "" {
			return name
		}
	}
	return ""
}

// likelyAdapter returns the adapter whose API a request is most like, for the form of a refusal.
func likelyAdapter(req *http.Request) Adapter {
	host, path := req.URL.Hostname(), req.URL.Path
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case len(req.Header["Anthropic-Version"]) > 0 || headers.IsHost(host, "anthropic.com"):
		return anthropic{}
	case len(req.Header["X-Goog-Api-Key"]) > 0 || headers.IsHost(host, "googleapis.com") || strings.Contains(last, ":"):
		return gemini{}
	case strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/api/v"):
		return ollama{}
	}
	return openAI{}
}
