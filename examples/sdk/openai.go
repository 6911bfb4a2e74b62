package main

import (
	"context"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// askOpenAI sends a prompt with OpenAI's SDK, which knows nothing of limits: hc does.
func askOpenAI(ctx context.Context, hc *http.Client, p provider, prompt string) (string, error) {
	client := openai.NewClient(option.WithHTTPClient(hc), option.WithBaseURL(p.url+"/v1/"), option.WithAPIKey(p.key))
	reply, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:    p.model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	})
	if err != nil || len(reply.Choices) == 0 {
		return "", err
	}
	return reply.Choices[0].Message.Content, nil
}
