package llmhttp

import (
	"net/http"
	"strings"
	"time"
)

// faultStatus are the statuses that Amazon Bedrock documents for the exceptions in its streams
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html,
// read 2026-11-25).
var faultStatus = map[string]int{
	"throttlingException":         http.StatusTooManyRequests,
	"serviceUnavailableException": http.StatusServiceUnavailable,
	"internalServerException":     http.StatusInternalServerError,
	"modelStreamErrorException":   http.StatusFailedDependency,
	"modelTimeoutException":       http.StatusRequestTimeout,
	"validationException":         http.StatusBadRequest,
}

// faulted records an exception in the stream of an answer whose status promised success. The caller
// holds f.mu.
func (f *flight) faulted(kind string, payload []byte) {
	if f.fault != nil {
		return // the first one ended the answer
	}
	status := faultStatus[lowerFirst(kind)]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	h := http.Header{}
	if kind != "" {
		h.Set(awsErrorHeader, strings.ToUpper(kind[:1])+kind[1:])
	}
	f.fault = classify(status, h, payload[:min(len(payload), maxErrorBody)], f.host(), time.Now())
}

// lowerFirst returns a name of AWS with a small first letter, as the streams have it and errors
// over HTTP do not.
func lowerFirst(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToLower(name[:1]) + name[1:]
}

// succeeded records that the provider answers the call as asked.
func (f *flight) succeeded(now time.Time) {
	models := &f.transport.models
	models.succeeded(f.model, now.Sub(f.sent))
	if f.routed != nil {
		models.restore(f.routed.standing)
	}
}

// outcome returns the status by which a call is charged: that of a refusal within the answer, if
// nothing was written before it, counts as that of an answer. A call that the model failed was
// worked on, whatever the status.
func (f *flight) outcome(text int) int {
	status := f.status
	if f.fault != nil && text == 0 && !f.usage.Known {
		status = f.fault.Status
	}
	if status >= 400 && f.problem != nil && f.problem.Kind == Failed {
		return max(status, http.StatusInternalServerError)
	}
	return status
}

// refusalStatus returns the status of the problem that the flight met.
func (f *flight) refusalStatus() int {
	if f.fault != nil {
		return f.fault.Status
	}
	return f.status
}
