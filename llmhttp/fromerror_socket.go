package llmhttp

import (
	"strings"
	"time"
)

// socketProblem returns the problem that an error event of a WebSocket tells, which openai-go's
// ResponseProtocolError has in a field; nil without one.
func (f fields) socketProblem() *Problem {
	at := f.FieldByName("Event")
	if !at.IsValid() || !at.CanInterface() {
		return nil
	}
	kept, ok := at.Interface().(interface{ RawJSON() string })
	if !ok {
		return nil
	}
	raw := kept.RawJSON()
	if len(raw) > maxErrorBody {
		return nil
	}
	e := newEvent()
	defer e.scanner.Release()
	e.read([]byte(raw))
	if e.scanner.End(); e.kind != "error" {
		return nil
	}
	status := e.refusedStatus()
	if strings.Contains(raw, `"message":"`+refusedText) {
		p := refusalText(raw)
		p.Status = status
		return p
	}
	return classify(status, e.headers, e.body, "", time.Now())
}
