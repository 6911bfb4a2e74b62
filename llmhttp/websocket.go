package llmhttp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// websocketPaths are the paths at which providers open WebSockets to models. A server of OpenAI's
// API may have another base than /v1.
func websocketPaths() []knownPath {
	const (
		mode     = "https://developers.openai.com/api/docs/guides/websocket-mode"
		realtime = "https://developers.openai.com/api/docs/guides/realtime-websocket"
		live     = "https://pkg.go.dev/github.com/openai/openai-go/v3@v3.96.0/live"
		gemini   = "https://ai.google.dev/api/live"
		vertex   = "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/live-api"
		day      = "2026-11-25"
	)
	told := func(api, path, note, source string) knownPath {
		return knownPath{api, http.MethodGet, path, toldFate, note, source, day}
	}
	return []knownPath{
		{"openai", http.MethodGet, "/v1/responses", countedFate, "WebSocket mode, each response.create; also Azure and xAI", mode, day},
		told("openai", "/v1/realtime", "WebSocket of audio; also Azure and xAI", realtime),
		told("openai", "/v1/realtime/translations", "WebSocket of audio", realtime),
		told("openai", "/v1/live/sessions", "WebSocket of audio", live),
		told("openai", "/v1/live/sessions/{session}/attach", "WebSocket of audio", live),
		told("openai", "/v1/live/sessions/{session}/fork", "WebSocket of audio", live),
		told("gemini", "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent", "Live API, WebSocket", gemini),
		told("gemini", "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContentConstrained", "Live API, WebSocket", gemini),
		told("gemini", "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateMusic", "Live API, WebSocket", gemini),
		told("vertex", "/ws/google.cloud.aiplatform.{version}.LlmBidiService/BidiGenerateContent", "Live API, WebSocket", vertex),
	}
}

// knownSockets are websocketPaths as the requests for upgrades are compared with them.
var knownSockets = websocketPaths()

// socketPath returns the known path of a request that opens a WebSocket; nil for other requests.
func socketPath(req *http.Request) *knownPath {
	if !isSocketUpgrade(req) {
		return nil
	}
	for i := range knownSockets {
		if endsLike(req.URL.Path, strings.TrimPrefix(knownSockets[i].path, "/v1")) {
			return &knownSockets[i]
		}
	}
	return nil
}

// isSocketUpgrade reports whether a request opens a WebSocket: over HTTP/1.1, RFC 6455, or over
// HTTP/2, RFC 8441.
func isSocketUpgrade(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, "":
		for _, list := range req.Header["Upgrade"] {
			for token := range strings.SplitSeq(list, ",") {
				if strings.EqualFold(strings.TrimSpace(token), "websocket") {
					return true
				}
			}
		}
	case http.MethodConnect:
		protocol := req.Header[":protocol"]
		return len(protocol) == 1 && protocol[0] == "websocket"
	}
	return false
}

// endsLike reports whether the last segments of a path are those of a pattern, in which {name}
// stands for a segment or the part of one.
func endsLike(path, pattern string) bool {
	have := strings.Split(strings.TrimSuffix(path, "/"), "/")
	want := strings.Split(pattern, "/")[1:]
	if len(have) <= len(want) {
		return false
	}
	for i, segment := range have[len(have)-len(want):] {
		before, rest, variable := strings.Cut(want[i], "{")
		_, after, _ := strings.Cut(rest, "}")
		if !variable && segment != want[i] {
			return false
		}
		if variable && (len(segment) <= len(before)+len(after) ||
			!strings.HasPrefix(segment, before) || !strings.HasSuffix(segment, after)) {
			return false
		}
	}
	return true
}

// uncountedSocket is called for what passes over a WebSocket uncounted: the upgrade to a known path
// whose calls cannot be counted, with an empty model, and a response.create without the name of a
// model. A result that is not nil refuses it: it takes the place of the answer to the upgrade, and
// of the create an error event does.
//
// JOIN: the telling (EventUncounted, UncountedError) and UnknownDeny of branch h-c belong here.
func (t *Transport) uncountedSocket(*http.Request) (refusal *http.Response, err error) {
	return nil, nil
}

// openSocket sends a request that opens a WebSocket at a known path.
func (t *Transport) openSocket(req *http.Request, known *knownPath, w *way) (*http.Response, error) {
	if t.NoWebSocket {
		closeBody(req)
		return socketRefusal(req), nil
	}
	if known.fate != countedFate || req.Method == http.MethodConnect {
		if refusal, err := t.uncountedSocket(req); refusal != nil || err != nil {
			closeBody(req)
			return refusal, err
		}
		return t.pass(req, w)
	}
	send := req
	if req.Header["Sec-Websocket-Extensions"] != nil {
		send = req.WithContext(req.Context())
		send.Header = req.Header.Clone()
		send.Header.Del("Sec-Websocket-Extensions") // compressed messages could not be read
	}
	if w != nil { // all calls go where the connection goes
		only := *w
		only.only = w.first()
		w = &only
	}
	resp, err := t.pass(send, w)
	if err != nil {
		return nil, err
	}
	if resp.Request == send {
		resp.Request = req
	}
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = newSocket(t, req, w, conn)
	}
	return resp, nil
}

// newSocket returns the watched connection of a WebSocket that the answer to req opened. The
// context of req bounds its opening alone, as with net/http and OpenAI's SDK.
func newSocket(t *Transport, req *http.Request, w *way, conn io.ReadWriteCloser) *socket {
	s := &socket{
		transport: t, request: req, way: w, conn: conn,
		writes: make(chan struct{}, 1), room: make(chan struct{}),
		lanes: make(map[string]*lane), client: frameReader{masked: true},
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(req.Context()))
	s.inbox.between, s.inbox.clear = true, true
	s.inbox.changed.L = &s.inbox.mu
	go s.pump()
	return s
}

// socketRefusal is the answer to an upgrade with NoWebSocket. Clients of OpenAI's API take it as
// the sign to use HTTP.
func socketRefusal(req *http.Request) *http.Response {
	body := `{"error":{"message":"go-ratelimit: WebSockets are off (Transport.NoWebSocket): use HTTP",` +
		`"type":"invalid_request_error","param":null,"code":"websocket_not_supported"}}`
	return &http.Response{
		Status:     "426 " + http.StatusText(http.StatusUpgradeRequired),
		StatusCode: http.StatusUpgradeRequired,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {"application/json"},
			"Content-Length": {strconv.Itoa(len(body))},
			"Connection":     {"Upgrade"},
			"Upgrade":        {"HTTP/1.1"}, // which status 426 must name
			"X-Should-Retry": {"false"},
			ownMark:          {},
		},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}
}

// errorEvent returns the event that a server of WebSocket mode sends in place of a response, in a
// frame. body is that of an answer with the same error over HTTP.
func errorEvent(status int, lane string, body []byte) []byte {
	event := append([]byte(`{"type":"error","status":`), strconv.Itoa(status)...)
	if isLane(lane) {
		quoted, _ := json.Marshal(lane)
		event = append(append(event, `,"stream_id":`...), quoted...)
	}
	event = append(append(event, ','), body[1:]...)
	return appendFrame(nil, textFrame, event, false)
}
