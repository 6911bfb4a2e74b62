package sdktest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	bedrockRegion = "us-east-1"
	bedrockModel  = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
)

var bedrockKeys = aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "canary-secret"}

// bedrockFake is the runtime of Amazon Bedrock: it checks the signatures of requests and their age,
// allows so many requests per minute, and answers all four operations.
type bedrockFake struct {
	perMinute int
	inStream  bool // it throttles streams by an exception inside an answer

	mu       sync.Mutex
	came     []time.Time // the requests that were answered
	requests int
	refused  int
	faults   []string // of signatures
	in, out  int      // tokens of all answers
}

func (b *bedrockFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	id, operation, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/model/"), "/")
	b.mu.Lock()
	b.requests++
	fault := checkSignature(r, body)
	if !ok || id != bedrockModel {
		fault = fmt.Sprintf("a model %q", id)
	}
	if fault != "" {
		b.faults = append(b.faults, fault)
		b.mu.Unlock()
		bedrockError(w, http.StatusForbidden, "InvalidSignatureException", fault)
		return
	}
	now := time.Now()
	for len(b.came) > 0 && now.Sub(b.came[0]) >= time.Minute {
		b.came = b.came[1:]
	}
	throttled := len(b.came) >= b.perMinute
	in, out := len(body)/4, 40+b.requests%20
	if throttled {
		b.refused++
	} else {
		b.came = append(b.came, now)
		b.in += in
		b.out += out
	}
	b.mu.Unlock()
	streams := strings.HasSuffix(operation, "-stream")
	if throttled && !(streams && b.inStream) {
		bedrockError(w, http.StatusTooManyRequests, "ThrottlingException", "Too many requests, please wait before trying again.")
		return
	}
	switch operation {
	case "converse":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"metrics":{"latencyMs":1},"output":{"message":{"role":"assistant","content":[{"text":"Hello"}]}},"stopReason":"end_turn","usage":{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d}}`, in, out, in+out)
	case "invoke":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Amzn-Bedrock-Input-Token-Count", fmt.Sprint(in))
		fmt.Fprintf(w, `{"id":"msg_bdrk_1","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`, in, out)
	case "converse-stream", "invoke-with-response-stream":
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		s := bedrockStream{w, eventstream.NewEncoder()}
		switch {
		case throttled:
			s.send("exception", ":exception-type", "throttlingException", `{"message":"Too many requests, please wait before trying again."}`)
		case operation == "converse-stream":
			s.converse(in, out)
		default:
			s.invoke(in, out)
		}
	default:
		http.NotFound(w, r)
	}
}

func bedrockError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", code+":http://internal.amazon.com/coral/com.amazon.bedrock/")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"message": message})
}

// checkSignature returns what is wrong with the signature of a request; nothing if it is right.
func checkSignature(r *http.Request, body []byte) string {
	_, fields, ok := strings.Cut(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !ok {
		return "no signature"
	}
	signedAt, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return "no date"
	}
	if age := time.Since(signedAt); age > 5*time.Minute || age < -5*time.Minute {
		return fmt.Sprintf("Signature expired: it is %v old", age)
	}
	again := r.Clone(context.Background())
	again.URL.Scheme, again.URL.Host = "http", r.Host
	again.Body, again.Header = io.NopCloser(bytes.NewReader(body)), http.Header{}
	for field := range strings.SplitSeq(fields, ", ") {
		if list, ok := strings.CutPrefix(field, "SignedHeaders="); ok {
			for name := range strings.SplitSeq(list, ";") {
				if values := r.Header.Values(name); len(values) > 0 {
					again.Header[http.CanonicalHeaderKey(name)] = values
				}
			}
		}
	}
	hash := sha256.Sum256(body)
	err = v4.NewSigner().SignHTTP(context.Background(), bedrockKeys, again, hex.EncodeToString(hash[:]), "bedrock", bedrockRegion, signedAt)
	if err != nil || again.Header.Get("Authorization") != r.Header.Get("Authorization") {
		return "The request signature we calculated does not match the signature you provided."
	}
	return ""
}

// bedrockStream writes frames.
type bedrockStream struct {
	w       http.ResponseWriter
	encoder *eventstream.Encoder
}

func (s bedrockStream) send(kind, header, name, payload string) {
	var m eventstream.Message
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(header, eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	m.Payload = []byte(payload)
	if err := s.encoder.Encode(s.w, m); err != nil {
		panic(err)
	}
	s.w.(http.Flusher).Flush()
}

func (s bedrockStream) converse(in, out int) {
	event := func(name, payload string) { s.send("event", ":event-type", name, payload) }
	event("messageStart", `{"role":"assistant"}`)
	event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hello"}}`)
	event("contentBlockStop", `{"contentBlockIndex":0}`)
	event("messageStop", `{"stopReason":"end_turn"}`)
	event("metadata", fmt.Sprintf(`{"usage":{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d},"metrics":{"latencyMs":1}}`, in, out, in+out))
}

func (s bedrockStream) invoke(in, out int) {
	chunk := func(text string) {
		payload, err := json.Marshal(map[string]any{"bytes": []byte(text), "p": "abcdefgh"})
		if err != nil {
			panic(err)
		}
		s.send("event", ":event-type", "chunk", string(payload))
	}
	chunk(fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_bdrk_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"usage":{"input_tokens":%d,"output_tokens":1}}}`, in))
	chunk(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	chunk(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`)
	chunk(`{"type":"content_block_stop","index":0}`)
	chunk(fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":%d}}`, out))
	chunk(fmt.Sprintf(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":%d,"outputTokenCount":%d,"invocationLatency":1,"firstByteLatency":1}}`, in, out))
}
