"""One PyTorch contender of table_bench.py: prints the milliseconds of each step.

    table_torch.py {sparse|dense} {sgd|adagrad} WARM_UP STEPS THREADS

SPDX-License-Identifier: Apache-2.0
"""

ROWS, WIDTH, WORDS, CLASSES, BATCH = 200000, 128, 4, 8, 256


def main():
    import torch
    import torch_steps

    how, optimizer, warm_up, steps = torch_steps.parse_arguments()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(ROWS, WIDTH, sparse=how == "sparse")
            self.head = torch.nn.Linear(WIDTH, CLASSES, bias=False)

        def forward(self, ids):
            return self.head(self.table(ids).mean(1))

    model = Model()
    make = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}[optimizer]
    ids = torch.randint(ROWS, (BATCH, WORDS))
    target = torch.randint(CLASSES, (BATCH,))
    torch_steps.print_times(
        *("eager", "fp32", warm_up, steps),
        *(model, make(model.parameters(), lr=0.01), ids, target),
    )


if __name__ == "__main__":
    main()
