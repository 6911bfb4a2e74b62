package llmhttp

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// codedError is an error of AWS's SDKs that the service reported.
type codedError interface {
	error
	ErrorCode() string
	ErrorMessage() string
}

// problemInMethods returns the problem that the methods of an error of AWS's SDKs tell: it has the
// status in one error and the name of the problem in another one that it wraps. What a stream
// reported has no status, and the one that its name stands for counts.
func problemInMethods(err error) *Problem {
	var coded codedError
	if !errors.As(err, &coded) {
		return nil
	}
	code, message := coded.ErrorCode(), coded.ErrorMessage()
	status := 0
	if answered, ok := err.(interface{ HTTPStatusCode() int }); ok {
		status = answered.HTTPStatusCode()
	} else {
		status = faultStatus[lowerFirst(code)]
	}
	if status < 400 || status > 599 {
		return nil
	}
	if strings.HasPrefix(message, refusedText) {
		return refusalText(message)
	}
	body, failed := json.Marshal(map[string]string{"__type": code, "message": message})
	if failed != nil || len(body) > maxErrorBody {
		return nil
	}
	return classify(status, nil, body, "", time.Now())
}

// statusInStream returns the status that an exception in the stream of an answer stands for, which
// anthropic-sdk-go passes on in Anthropic's form; zero for another body.
func statusInStream(body []byte) int {
	var event struct{ Error struct{ Type string } }
	if json.Unmarshal(body, &event) != nil {
		return 0
	}
	return faultStatus[lowerFirst(event.Error.Type)]
}
