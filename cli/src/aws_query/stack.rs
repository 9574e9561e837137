//! CloudFormation stacks, as the command line reads them.

use std::collections::BTreeMap;

use super::{AwsError, AwsQuery, Node};

/// CloudFormation stack, as `DescribeStacks` returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stack {
    /// Name of the CloudFormation stack.
    pub(crate) name: String,
    /// State of the CloudFormation stack, such as `UPDATE_COMPLETE`.
    pub(crate) state: String,
    /// Reason that CloudFormation gives for the state; empty if there is none.
    pub(crate) reason: String,
    /// Parameters with which the stack was deployed, by name.
    pub(crate) parameters: BTreeMap<String, String>,
    /// Outputs of the CloudFormation stack, by name.
    pub(crate) outputs: BTreeMap<String, String>,
}

impl Stack {
    /// Reads a stack; `None` if there is none of this name.
    ///
    /// # Errors
    /// If CloudFormation does not answer, or does not permit the call.
    pub(crate) async fn describe(client: &AwsQuery, name: &str) -> Result<Option<Self>, AwsError> {
        match client.query("cloudformation", "DescribeStacks", &[("StackName", name)]).await {
            Ok(answer) => Ok(answer.list("Stacks").next().map(|node| Self::read(name, node))),
            Err(AwsError { code, message, .. })
                if code == "ValidationError" && message.contains("does not exist") =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn read(name: &str, node: &Node) -> Self {
        let pairs = |list: &str, key: &str, value: &str| -> BTreeMap<String, String> {
            let pair = |item: &Node| (item.text_of(key).to_owned(), item.text_of(value).to_owned());
            node.list(list).map(pair).collect()
        };
        Self {
            name: name.to_owned(),
            state: node.text_of("StackStatus").to_owned(),
            reason: node.text_of("StackStatusReason").to_owned(),
            parameters: pairs("Parameters", "ParameterKey", "ParameterValue"),
            outputs: pairs("Outputs", "OutputKey", "OutputValue"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_cloudformation_is_read() {
        let xml = "<R><DescribeStacksResult><Stacks><member><StackName>dev</StackName>\
<Parameters><member><ParameterKey>LogLevel</ParameterKey><ParameterValue>info</ParameterValue></member></Parameters>\
<StackStatus>CREATE_COMPLETE</StackStatus>\
<Outputs><member><OutputKey>ApiUrl</OutputKey><OutputValue>https://a</OutputValue></member></Outputs>\
</member></Stacks></DescribeStacksResult></R>";
        let root = Node::parse(xml).unwrap();
        let stack = Stack::read("dev", root.list("Stacks").next().unwrap());
        assert_eq!((stack.state.as_str(), stack.reason.as_str()), ("CREATE_COMPLETE", ""));
        assert_eq!(
            (stack.parameters["LogLevel"].as_str(), stack.outputs["ApiUrl"].as_str()),
            ("info", "https://a")
        );
    }
}
