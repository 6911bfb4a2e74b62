package llmhttp

import (
	"net/http"
	"slices"
	"strings"
)

// awsErrorHeader is the header in which AWS names an error.
const awsErrorHeader = "X-Amzn-Errortype"

// AWS's errors, by what they say. See
// https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html.
var (
	awsThrottled = []string{"ThrottlingException", "ThrottledException", "TooManyRequestsException"}
	// A model that is not ready is answered with 429, too.
	awsOverloaded = []string{"ModelNotReadyException", "ServiceUnavailableException"}
	awsFailed     = []string{"ModelErrorException", "ModelStreamErrorException", "ModelTimeoutException"}
)

// addAWS adds the name of an error of AWS: it is in a header, or in the body under __type, with or
// without a namespace in front and an address behind.
func (b *errorBody) addAWS(h http.Header, inBody string) {
	name := h.Get(awsErrorHeader)
	if name == "" {
		name = inBody
	}
	name = name[strings.LastIndexByte(name, '#')+1:]
	name, _, _ = strings.Cut(name, ":")
	if !isName(name, maxCode) {
		return
	}
	b.codes = append(b.codes, name)
	if b.code == "" {
		b.code = name
	}
	b.failed = slices.Contains(awsFailed, name)
}
