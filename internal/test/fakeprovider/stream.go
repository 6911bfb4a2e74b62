package fakeprovider

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
)

// stream writes the answer as a stream.
func (x *exchange) stream() {
	x.w.Header().Set("Content-Type", x.contentType())
	if x.zipped() {
		x.zip = gzip.NewWriter(x.w)
	}
	x.w.WriteHeader(http.StatusOK)
	switch x.call.Dialect {
	case Anthropic:
		x.streamMessage()
	case Gemini:
		x.streamGenerated()
	case Ollama:
		x.streamOllama()
	default:
		switch x.call.Operation {
		case "responses":
			x.streamResponse()
		case "completions":
			x.streamCompletion()
		default:
			x.streamChat()
		}
	}
	if x.zip != nil {
		x.zip.Close()
	}
}

// event writes an event of a stream; its name may be empty. It returns false when the
// stream is over: the dialect's error was written. A cut ends the handler.
func (x *exchange) event(name string, data json.RawMessage) bool {
	if x.answer.Break > 0 && x.events == x.answer.Break {
		x.end()
		if name, data = x.broken(); data != nil {
			x.raw(sse(name, data))
		}
		return false
	}
	return x.write(sse(name, data))
}

// sse returns an event as it is written.
func sse(name string, data []byte) []byte {
	var text []byte
	if name != "" {
		text = append(append(append(text, "event: "...), name...), '\n')
	}
	return append(append(append(text, "data: "...), data...), "\n\n"...)
}

// write writes an event of a stream that is formatted already. Before it waits, or
// cuts the stream, as the answer says.
func (x *exchange) write(text []byte) bool {
	if x.answer.Cut > 0 && x.events == x.answer.Cut {
		panic(http.ErrAbortHandler)
	}
	if x.events == x.answer.Chunks/2+1 && !sleep(x.r.Context(), x.answer.Stall) {
		panic(http.ErrAbortHandler)
	}
	if x.events > 0 && !sleep(x.r.Context(), x.answer.Pause) {
		panic(http.ErrAbortHandler)
	}
	x.events++
	if x.tells {
		x.tells = false
		x.report()
	}
	if x.last {
		x.end()
	}
	return x.raw(text)
}

// raw writes text at once.
func (x *exchange) raw(text []byte) bool {
	var err error
	if x.zip != nil {
		x.zip.Write(text)
		err = x.zip.Flush()
	} else {
		_, err = x.w.Write(text)
	}
	if err == nil {
		err = http.NewResponseController(x.w).Flush()
	}
	return err == nil
}

// broken returns the event with which a stream ends that fails; no data if the dialect has none.
func (x *exchange) broken() (name string, data json.RawMessage) {
	switch {
	case x.call.Dialect == Anthropic:
		return "error", anthropicError("overloaded_error", "Overloaded", "")
	case x.call.Operation == "responses":
		return "response.failed", object("type", "response.failed", "sequence_number", x.events, "response", x.response("failed"))
	case x.call.Dialect == OpenAI:
		return "", openAIError("server_error", "", "The server had an error while processing your request. Sorry about that!")
	}
	return "", nil
}
