package llmhttp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// webSocketSource describes the WebSocket mode of Responses.
const webSocketSource = "https://developers.openai.com/api/docs/guides/websocket-mode"

// opensResponses reports whether a request opens a WebSocket for responses.
func opensResponses(req *http.Request) bool {
	return isSocketUpgrade(req) && strings.HasSuffix(strings.TrimRight(req.URL.Path, "/"), "/responses")
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

// openSocket sends a request that opens a WebSocket for responses.
func (t *Transport) openSocket(req *http.Request, w *way) (*http.Response, error) {
	switch {
	case t.NoWebSocket:
		closeBody(req)
		return socketRefusal(req), nil
	case req.Method == http.MethodConnect: // over HTTP/2, where no answer has the connection
		return t.passUncounted(req, &Call{Request: req}, openAI{}, unmeasuredPath, w)
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
	go s.guard(s.pump)
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
